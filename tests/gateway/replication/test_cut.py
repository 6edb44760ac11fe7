"""Truncation of a follower: producers' state matches the remaining batches, without reading all of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from odradek.gateway.replication.following import cut
from odradek.partitions.config import LogConfig
from odradek.partitions.follower import follow
from odradek.partitions.imports import read_imported_batches
from odradek.partitions.leader import lead
from odradek.partitions.model import StoredBatch
from odradek.partitions.results import Appended
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import ProducerRebuild
from odradek.storage_backends.interface import LogPolicy, PartitionStore, ReadLease, Store
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.access import base_offsets, read_all
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker

BATCHES = 60
PRODUCERS = 4
SEGMENT_BYTES = 700


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store("memory://" if request.param == "memory" else f"lmdb://{tmp_path}/data")
    yield opened
    opened.close()


def batch(number: int) -> bytes:
    """The batch at this offset; producers take turns, and the last one writes in transactions."""
    producer, turn = number % PRODUCERS, number // PRODUCERS
    if producer == PRODUCERS - 1 and turn % 3 == 2:
        return end_transaction_marker(
            committed=bool(turn % 2),
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=turn,
            timestamp_ms=number,
        )
    return build_batch(
        [SimpleRecord(b"k", b"%d" % number, number)],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=turn - turn // 3 if producer == PRODUCERS - 1 else turn,
        transactional=producer == PRODUCERS - 1,
    )


def filled(store: Store) -> PartitionStore:
    part = store.open(KEY, LogPolicy(segment_bytes=SEGMENT_BYTES))
    role = follow(PartitionState.restore(part.load(), LogConfig()), 0, leader_id=1)
    for number in range(BATCHES):
        data = bytearray(batch(number))
        data[:8] = number.to_bytes(8, "big")
        data[12:16] = bytes(4)  # the leader epoch
        result = role.append(memoryview(data))
        assert isinstance(result, Appended)
        part.commit([result.write], sync=True)
    assert len(part.segments()) > 5
    return part


def by_all_batches(part: PartitionStore, offset: int) -> Mapping[int, bytes]:
    rebuild = ProducerRebuild()
    for base_offset in base_offsets(part):
        if base_offset < offset:
            rebuild.add(memoryview(read_all(part, base_offset, base_offset + 1)))
    return rebuild.rows()


@pytest.mark.parametrize("offset", [*range(0, BATCHES, 7), BATCHES - 1])
def test_the_rows_are_those_of_all_batches_that_stay(store: Store, offset: int) -> None:
    part = filled(store)
    expected = by_all_batches(part, offset)
    assert cut(part, offset).producers == expected


def test_batches_of_sealed_segments_before_the_cut_are_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    part = filled(store)
    active = part.segments()[-1]
    read, started = part.read, list[int]()

    def watched(start_offset: int, end_offset: int, max_bytes: int) -> ReadLease:
        started.append(start_offset)
        return read(start_offset, end_offset, max_bytes)

    monkeypatch.setattr(part, "read", watched)
    cut(part, BATCHES - 1)
    assert started
    assert min(started) == active.base_offset


def test_where_compaction_has_made_a_segment_the_rows_come_from_an_older_one(store: Store) -> None:
    part = filled(store)
    expected = by_all_batches(part, BATCHES - 1)
    last = part.segments()[-2]
    draft = part.draft(last.base_offset, last.end_offset)
    for offset in base_offsets(part, last.base_offset):
        if offset < last.end_offset:
            draft.add([StoredBatch(offset, offset, offset, read_all(part, offset, offset + 1))])
    draft.seal([])
    assert part.replace(draft)
    assert part.producers_before(BATCHES - 1).end_offset in (last.base_offset, last.end_offset)
    assert cut(part, BATCHES - 1).producers == expected


def imported(store: Store) -> tuple[PartitionState, PartitionStore]:
    """A log with an imported transaction that is aborted; with its marker the producer's row is removed."""
    part = store.open(KEY, LogPolicy())
    state = PartitionState.restore(part.load(), LogConfig())
    leader, write = lead(state, 3)
    assert write is not None
    part.commit([write], sync=True)
    records = [SimpleRecord(b"k", b"v", number) for number in range(3)]
    opening = build_batch(records, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    for offset, data in ((0, opening), (3, aborting())):
        buffer = bytearray(data)
        buffer[:8] = offset.to_bytes(8, "big")
        batches = read_imported_batches(memoryview(buffer), LogConfig())
        assert isinstance(batches, list)
        result = leader.take_imported(memoryview(buffer), batches)
        assert isinstance(result, Appended)
        part.commit([result.write], sync=True)
        leader.durable(result.last_offset + 1)
    assert state.aborted_in(0, 4)
    assert not part.load().producers
    return state, part


def aborting() -> bytes:
    return end_transaction_marker(committed=False, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp_ms=3)


def test_an_imported_transaction_is_open_again_when_its_marker_is_cut(store: Store) -> None:
    state, part = imported(store)
    state.truncated(cut(part, 3))
    assert state.producer_states.first_unstable_offset() == 0
    follower = follow(state, 4, leader_id=2)
    marker = bytearray(aborting())
    marker[:8], marker[12:16] = (3).to_bytes(8, "big"), (4).to_bytes(4, "big")
    result = follower.append(memoryview(marker))  # imported again, at the new leader
    assert isinstance(result, Appended)
    part.commit([result.write], sync=True)
    follower.durable(4)
    follower.leader_commits(4)
    assert state.last_stable_offset == 4
    assert state.aborted_in(0, 4), "otherwise read_committed consumers get the aborted records"
