"""A snapshot as record batches, in the framing of Kafka's checkpoint files (KIP-630).

    header, voters (control)  │  records of the image, many a batch  │  footer (control)

The batches count their offsets from 0, and have the epoch of the snapshot. A snapshot without a footer is incomplete.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.image.records import from_shard_record, to_shard_records
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.image.snapshot import snapshot_records
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch, control_batch
from odradek.wire.records.errors import CorruptBatch
from odradek.wire.records.reader import ControlType, read_control_marker, read_records
from odradek.wire.schema.codec import decode, encode
from odradek.wire.schema.schema import Message
from odradek.wire.stored.control_records import SnapshotFooterRecord, SnapshotHeaderRecord

RECORDS_PER_BATCH: Final = 1024


def snapshot_batches(
    image: MetadataImage, last_timestamp_ms: int, quorum: Sequence[tuple[ControlType, bytes]] = ()
) -> Iterator[bytes]:
    """Yield the batches of an image's snapshot.

    `last_timestamp_ms` is the timestamp of the last record in it; `quorum` has the control records of the voters, which
    follow the header (KIP-853).
    """
    epoch = max(image.epoch, 0)
    header = bytes(encode(SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms), 0))
    first = [(ControlType.SNAPSHOT_HEADER, header), *quorum]
    yield control_batch(first, timestamp_ms=last_timestamp_ms, leader_epoch=epoch)
    offset = len(first)
    left = snapshot_records(image)
    while messages := list(islice(left, RECORDS_PER_BATCH)):
        records = [SimpleRecord(None, each.value, last_timestamp_ms) for each in to_shard_records(messages)]
        yield build_batch(records, base_offset=offset, leader_epoch=epoch)
        offset += len(records)
    footer = bytes(encode(SnapshotFooterRecord(), 0))
    records_at_end = [(ControlType.SNAPSHOT_FOOTER, footer)]
    yield control_batch(records_at_end, timestamp_ms=last_timestamp_ms, base_offset=offset, leader_epoch=epoch)


class SnapshotReader:
    """Reads the batches of a snapshot, in order, each once, into a delta on top of an empty image, `before` if given.

    `last_timestamp_ms` is from the header. `is_whole` is True once the footer was read; nothing may follow it.
    """

    def __init__(self, before: MetadataImage | None = None) -> None:
        self.delta = MetadataDelta(before)
        self.last_timestamp_ms = -1
        self.size_bytes = 0
        self.is_whole = False
        self._offset = 0

    def add(self, chunk: bytes | memoryview) -> None:
        """Add whole batches. Raises InvalidRecordBatch, and ProtocolError for records of a newer version."""
        for header in iter_headers(chunk):
            check_crc(chunk, header)
            if header.base_offset != self._offset or self.is_whole:
                raise CorruptBatch(f"a snapshot goes on at {self._offset}, not at {header.base_offset}")
            if header.is_control:
                self._control(chunk, header)
            else:
                self._records(chunk, header)
            self._offset = header.next_offset
            self.size_bytes += header.size_bytes

    def image(self, end_offset: int, epoch: int) -> MetadataImage:
        """Returns the image of the whole snapshot with that id. Raises InvalidRecordBatch if it is incomplete."""
        if not self.is_whole:
            raise CorruptBatch(f"the snapshot {end_offset}-{epoch} has no footer")
        self.delta.advance(end_offset - 1, epoch)
        return self.delta.apply()

    def _control(self, chunk: bytes | memoryview, header: BatchHeader) -> None:
        marker = read_control_marker(chunk, header)
        if (marker.type is ControlType.SNAPSHOT_HEADER) is not (self._offset == 0) or marker.value is None:
            raise CorruptBatch(f"a snapshot begins with a header, and has no other: {marker.type.name}")
        if marker.type is ControlType.SNAPSHOT_HEADER:
            self.last_timestamp_ms = decode(SnapshotHeaderRecord, 0, marker.value)[0].last_contained_log_timestamp
        elif marker.type is ControlType.SNAPSHOT_FOOTER:
            self.is_whole = True

    def _records(self, chunk: bytes | memoryview, header: BatchHeader) -> None:
        if self._offset == 0:
            raise CorruptBatch("a snapshot begins with a header")
        for record in read_records(chunk, header):
            message = from_shard_record(ShardRecord(record.key or b"", record.value))
            if message is not None:
                self._replay(message, header.partition_leader_epoch)

    def _replay(self, message: Message, epoch: int) -> None:
        try:
            replay(self.delta, message, -1, epoch)
        except LookupError as error:
            raise CorruptBatch(f"a record of a snapshot changes what is not there: {message}") from error
