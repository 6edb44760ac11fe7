"""The batches inside frames between ten clients and a real Kafka: found by their checksum, read, and built again."""

import tarfile
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pytest

from odradek.wire.records.batch import HEADER_BYTES, BatchHeader, Codec, check_crc, parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import ControlType, read_control_marker, read_records

ARCHIVE = Path(__file__).parent.parent / "data" / "golden_frames.tar.xz"
CLIENTS = {"j4.4", "j3.9", "ck", "kp", "ak", "fz", "sa", "kg", "kj", "pl"}


class Golden(NamedTuple):
    """One batch: the frame it was found in, its header at position 0, its bytes."""

    frame: str
    header: BatchHeader
    data: bytes

    @property
    def client(self) -> str:
        return self.frame.split("-")[0]


def batches_within(frame: bytes) -> list[bytes]:
    """Finds batches without decoding the message around them, by their checksums."""
    found: list[bytes] = []
    position = 0
    while position < len(frame) - HEADER_BYTES:
        try:
            header = parse_header(frame, position)
            check_crc(frame, header)
        except InvalidRecordBatch:
            position += 1
        else:
            found.append(frame[position : header.end_position])
            position = header.end_position
    return found


@cache
def golden() -> dict[str, list[Golden]]:
    """By frame, `<client>-<scenario>/<Api>.v<version>.<req|resp>.bin`, for Produce requests and Fetch responses."""
    frames: dict[str, list[Golden]] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            name = "/".join(PurePosixPath(member.name).parts[-2:])
            carries = ("Produce.v" in name and ".req." in name) or ("/Fetch.v" in name and ".resp." in name)
            content = archive.extractfile(member)
            if carries and content is not None:
                frames[name] = [Golden(name, parse_header(data), data) for data in batches_within(content.read())]
    return frames


def every_batch() -> list[Golden]:
    return [batch for batches in golden().values() for batch in batches]


def test_every_produce_request_holds_one_batch_of_its_client() -> None:
    produced = {name: batches for name, batches in golden().items() if "Produce" in name}
    assert {name.split("-")[0] for name in produced} == CLIENTS
    assert [name for name, batches in produced.items() if len(batches) != 1] == []
    for (batch,) in produced.values():
        assert batch.header.base_offset == 0
        assert batch.header.record_count == batch.header.last_offset_delta + 1 > 0
        assert not batch.header.is_control


def test_every_fetch_response_holds_batches_that_read() -> None:
    fetched = [batch for batch in every_batch() if "Fetch" in batch.frame]
    assert len(fetched) >= 80
    for batch in every_batch():
        records = list(read_records(batch.data))
        assert [record.offset for record in records] == list(
            range(batch.header.base_offset, batch.header.last_offset + 1)
        )
        assert max(record.timestamp_ms for record in records) == batch.header.max_timestamp


@pytest.mark.parametrize(
    ("client", "codec"),
    [("ak", Codec.GZIP), ("kj", Codec.GZIP), ("ck", Codec.SNAPPY), ("j4.4", Codec.ZSTD), ("j3.9", Codec.ZSTD)],
)
def test_compressed_batches_of_clients_read(client: str, codec: Codec) -> None:
    batches = [batch for batch in every_batch() if (batch.client, batch.header.codec) == (client, codec)]
    assert batches
    assert all(record.value for batch in batches for record in read_records(batch.data))


def test_trap_13_librdkafka_writes_raw_snappy() -> None:
    (batch, *_) = [batch for batch in every_batch() if batch.header.codec == Codec.SNAPPY]
    assert not batch.data[HEADER_BYTES:].startswith(b"\x82SNAPPY")


def test_uncompressed_batches_are_built_again_to_the_same_bytes() -> None:
    plain = [batch for batch in every_batch() if batch.header.codec == Codec.NONE and not batch.header.is_control]
    assert {batch.client for batch in plain} == CLIENTS
    different = [batch.frame for batch in plain if rebuilt(batch) != batch.data]
    assert different == []


def rebuilt(batch: Golden) -> bytes:
    header = batch.header
    return build_batch(
        [SimpleRecord(r.key, r.value, r.timestamp_ms, r.headers) for r in read_records(batch.data)],
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )


def test_trap_14_markers_of_kafka_are_built_again_to_the_same_bytes() -> None:
    markers = [batch for batch in every_batch() if batch.header.is_control]
    assert {read_control_marker(batch.data).type for batch in markers} == {ControlType.COMMIT, ControlType.ABORT}
    for batch in markers:
        marker, header = read_control_marker(batch.data), batch.header
        assert marker.coordinator_epoch is not None
        assert batch.data == end_transaction_marker(
            committed=marker.type is ControlType.COMMIT,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=marker.timestamp_ms,
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
        )
