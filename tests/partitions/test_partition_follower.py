"""A follower: what it accepts from its leader, what it serves, and how it truncates a diverged log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_fakes import NOW_MS, Partition, StoredLog, data_batch, end_marker, of_producer, patched

from odradek.partitions.config import LogConfig
from odradek.partitions.epochs import EpochHistory
from odradek.partitions.follower import Follower, Restart, follow
from odradek.partitions.leader import Leader, lead
from odradek.partitions.model import EpochStart, LogSnapshot, LogWrite
from odradek.partitions.results import Appended, AppendOrigin, EpochEnd, FetchPlan, Isolation, Rejected
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import ProducerRebuild, TruncationPoint, truncation_point
from odradek.storage_backends.interface import LogPolicy, PartitionStore
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.storage_backends.testing.access import read_all
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import iter_headers

ALL = Isolation.READ_UNCOMMITTED


def follower_of(leader: Partition, epoch: int) -> tuple[Follower, StoredLog]:
    return follow(PartitionState.restore(LogSnapshot(), leader.log.config), epoch, leader_id=1), StoredLog()


def leader_with_history() -> Partition:
    leader = Partition()
    leader.append(data_batch(3))
    leader.append(of_producer(1, 0, 2, transactional=True))
    leader.append(of_producer(2, 5, transactional=True))
    leader.mark(end_marker(1, committed=False, coordinator_epoch=3))
    leader.lead(2)
    leader.append(of_producer(1, 2, transactional=True))
    leader.mark(end_marker(1, committed=True, coordinator_epoch=4, epoch=1))
    return leader


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_follower_ends_up_as_its_leader(at_once: int) -> None:
    leader = leader_with_history()
    follower, store = follower_of(leader, epoch=2)
    log = follower.state
    batches = [bytes(batch.data) for batch in leader.store.batches]
    for start in range(0, len(batches), at_once):
        result = follower.append(memoryview(b"".join(batches[start : start + at_once])))
        assert isinstance(result, Appended)
        store.commit(result.write)
        follower.durable(log.log_end_offset)
    follower.leader_commits(leader.log.high_watermark)
    assert log.snapshot() == leader.log.snapshot()
    assert [bytes(batch.data) for batch in store.batches] == batches
    assert log.last_stable_offset == leader.log.last_stable_offset == 5
    assert PartitionState.restore(store.load(), log.config).snapshot() == log.snapshot()


def test_the_high_watermark_is_the_leader_s_as_far_as_the_records_are_durable_here() -> None:
    leader = Partition()
    for _ in range(4):
        leader.append(data_batch())
    follower, _ = follower_of(leader, epoch=0)
    follower.append(memoryview(b"".join([bytes(batch.data) for batch in leader.store.batches])))
    assert not follower.leader_commits(3)
    moves = [(follower.durable(2), follower.state.high_watermark), (follower.durable(4), follower.state.high_watermark)]
    assert moves == [(True, 2), (True, 3)]
    assert not follower.leader_commits(1)
    assert follower.leader_commits(9)
    assert follower.state.high_watermark == 4


def test_a_follower_copies_a_compacted_log_with_its_gaps() -> None:
    leader = Partition()
    for sequence in range(0, 12, 2):
        leader.append(of_producer(1, sequence, 2))
    kept = [leader.store.batches[number] for number in (1, 2, 5)]
    follower, _ = follower_of(leader, epoch=0)
    result = follower.append(memoryview(b"".join([bytes(batch.data) for batch in kept])))
    assert isinstance(result, Appended)
    assert (result.base_offset, result.last_offset) == (2, 11)
    store = MemoryStore(MemoryMedium()).open(KEY, LogPolicy())
    store.commit([result.write], sync=True)
    assert PartitionState.restore(store.load(), LogConfig()).snapshot() == follower.state.snapshot()
    assert follower.state.log_end_offset == leader.log.log_end_offset


def test_a_follower_refuses_damage_and_what_it_has() -> None:
    leader = leader_with_history()
    follower, _ = follower_of(leader, epoch=2)
    first, second = (bytes(batch.data) for batch in leader.store.batches[:2])
    before = follower.state.snapshot()
    damaged = patched(memoryview(bytearray(second)), 60, 9, 1, fix_crc=False)
    assert follower.append(memoryview(first + bytes(damaged))).error is ErrorCode.CORRUPT_MESSAGE
    assert follower.append(memoryview(first + first)).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower.state.snapshot() == before


def test_a_follower_ignores_a_cut_off_tail_and_a_newer_epoch() -> None:
    leader = leader_with_history()
    batches = [bytes(batch.data) for batch in leader.store.batches]
    follower, _ = follower_of(leader, epoch=0)
    result = follower.append(memoryview(b"".join(batches)))
    assert isinstance(result, Appended)
    assert (result.base_offset, result.last_offset) == (0, 6)
    follower, _ = follower_of(leader, epoch=2)
    assert follower.append(memoryview(batches[0] + batches[1][:-1])).last_offset == 2
    assert follower.append(memoryview(b"")).write == LogWrite([], [], {}, [], replicated=True)


@pytest.mark.parametrize(
    ("current", "error"),
    [
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_clients_are_referred_to_the_leader_after_the_epoch_is_checked(current: int, error: ErrorCode) -> None:
    follower = follow(PartitionState.restore(LogSnapshot(), LogConfig()), 3, leader_id=1)
    answers = [
        follower.fetch(0, max_bytes=1, isolation=ALL, current_leader_epoch=current),
        follower.list_offset(-1, ALL, current),
        follower.epoch_end(3, current),
    ]
    assert [answer.error for answer in answers if isinstance(answer, Rejected)] == [error] * 3


def test_a_consumer_that_may_reads_from_a_follower_below_its_high_watermark() -> None:
    leader = Partition()
    leader.append(data_batch(3))
    follower, _ = follower_of(leader, epoch=0)
    follower.append(memoryview(leader.store.batches[0].data))
    follower.durable(3)
    follower.leader_commits(2)
    plan = follower.fetch(0, max_bytes=1, isolation=ALL, leader_only=False)
    assert isinstance(plan, FetchPlan)
    assert plan.end == 2


# A log that begins inside a batch of its leader


def begins_inside(offset: int) -> tuple[Partition, Follower, PartitionStore]:
    """A leader whose log starts at `offset`, and a follower that has restarted there with an empty log."""
    leader = leader_with_history()
    leader.keep(leader.leader.state.move_log_start(offset))
    store = MemoryStore(MemoryMedium()).open(KEY, LogPolicy(segment_bytes=200))
    store.commit([LogWrite(log_start_offset=offset)], sync=True)
    return leader, follow(PartitionState.restore(store.load(), leader.log.config), 2, leader_id=1), store


def from_batch(leader: Partition, number: int) -> memoryview:
    return memoryview(b"".join([bytes(batch.data) for batch in leader.store.batches[number:]]))


def restart(state: PartitionState, store: PartitionStore, how: Restart) -> None:
    store.truncate(how.base_offset)
    store.commit(how.writes, sync=True)
    state.truncated(store.load())


@pytest.mark.parametrize(("offset", "number"), [(1, 0), (2, 0), (4, 1)])
def test_a_log_that_begins_inside_a_batch_is_restarted_with_the_whole_batch(offset: int, number: int) -> None:
    leader, follower, store = begins_inside(offset)
    sent = from_batch(leader, number)
    assert follower.append(sent).error is ErrorCode.OFFSET_OUT_OF_RANGE
    how = follower.restart_with(sent)
    assert how is not None
    assert how.base_offset == leader.store.batches[number].base_offset
    restart(follower.state, store, how)
    log = follower.state
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (offset, offset, leader.log.log_end_offset)
    assert log.epochs.entries == leader.log.epochs.entries
    assert log.producers == leader.log.producers
    assert log.aborted == leader.log.aborted
    assert read_all(store, offset) == bytes(sent)
    assert PartitionState.restore(store.load(), log.config).snapshot() == log.snapshot()
    follower.leader_commits(leader.log.high_watermark)
    assert log.last_stable_offset == leader.log.last_stable_offset


def test_only_an_empty_log_that_ends_inside_the_first_batch_is_restarted() -> None:
    leader, follower, store = begins_inside(1)
    first = from_batch(leader, 0)
    how = follower.restart_with(first)
    assert how is not None
    restart(follower.state, store, how)
    assert follower.restart_with(first) is None, "it is not empty any more"
    for offset in (3, 7):
        _, follower, _ = begins_inside(offset)
        assert follower.restart_with(first) is None, "the first batch ends below it"
    _, follower, _ = begins_inside(1)
    damaged = bytearray(first)
    damaged[-1] ^= 1
    assert follower.restart_with(memoryview(damaged)) is None


# Truncation


@pytest.mark.parametrize(
    ("leader", "expected"),
    [
        (EpochEnd(-1, -1), (12, True)),
        (EpochEnd(-1, 5), (5, True)),
        (EpochEnd(-1, 50), (12, True)),
        (EpochEnd(4, 10), (10, True)),
        (EpochEnd(4, 50), (12, True)),
        (EpochEnd(2, 5), (5, True)),
        (EpochEnd(2, 9), (8, True)),
        (EpochEnd(3, 9), (8, False)),
        (EpochEnd(0, 2), (0, True)),
        (EpochEnd(5, 7), (7, True)),
    ],
)
def test_the_cut_follows_the_table(leader: EpochEnd, expected: tuple[int, bool]) -> None:
    own = EpochHistory([EpochStart(1, 0), EpochStart(2, 4), EpochStart(4, 8)])
    assert truncation_point(own, 12, leader) == TruncationPoint(*expected)


def test_a_cut_at_the_log_end_drops_an_epoch_that_wrote_nothing() -> None:
    alone = Replica()
    alone.write(alone.lead(1), 0)
    alone.lead(3)
    log, store = alone.state, alone.store
    follower = follow(log, 5, leader_id=1)
    point = follower.truncation(EpochEnd(2, 6))
    assert point == (1, False)
    log.truncated(store.truncate(point.offset))
    assert log.epochs.latest == store.load().epochs[-1].leader_epoch == 1


class Replica:
    """One replica's role and its store."""

    def __init__(self) -> None:
        self.store: PartitionStore = MemoryStore(MemoryMedium()).open(KEY, LogPolicy(segment_bytes=300))
        self.state = PartitionState.restore(LogSnapshot(), LogConfig())
        self.sequences = [0, 0]

    def lead(self, epoch: int) -> Leader:
        role, write = lead(self.state, epoch)
        if write is not None:
            self.store.commit([write], sync=True)
        return role

    def write(self, role: Leader, kind: int) -> None:
        """Appends a batch of one of two producers, or the end marker of its transaction."""
        producer_id, step = kind % 2 + 1, kind // 2
        entry = self.state.producers.get(producer_id)
        epoch = entry.producer_epoch if entry else 0
        if step == 2:
            records, origin = end_marker(producer_id, committed=kind == 4, epoch=epoch), AppendOrigin.COORDINATOR
        else:
            sequence = 0 if entry is None else entry.last_sequence + 1
            records, origin = of_producer(producer_id, sequence, epoch=epoch, transactional=True), AppendOrigin.CLIENT
        self.keep(role, role.append(records, origin=origin, now_ms=NOW_MS))

    def keep(self, role: Leader | Follower, result: object) -> None:
        assert isinstance(result, Appended), result
        self.store.commit([result.write], sync=True)
        role.durable(self.state.log_end_offset)

    def copy(self, role: Follower, source: "Replica", end_offset: int) -> None:
        while self.state.log_end_offset < end_offset:
            sent = read_all(source.store, self.state.log_end_offset, end_offset)
            self.keep(role, role.append(memoryview(sent)))

    def cut(self, role: Follower, diverging: EpochEnd) -> None:
        point = role.truncation(diverging)
        rebuild, offset = ProducerRebuild(), self.state.log_start_offset
        while offset < point.offset:
            chunk = memoryview(read_all(self.store, offset, point.offset))
            rebuild.add(chunk)
            offset = [header.next_offset for header in iter_headers(chunk)][-1]
        self.state.truncated(self.store.truncate(point.offset, rebuild.rows()))

    def batches(self) -> bytes:
        got, offset = b"", self.state.log_start_offset
        while offset < self.state.log_end_offset:
            step = read_all(self.store, offset)
            got, offset = got + step, [header.next_offset for header in iter_headers(step)][-1]
        return got


_terms = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 5), max_size=4)), max_size=6)


@given(shared=st.lists(st.integers(0, 5), max_size=6), terms=_terms)
def test_a_follower_that_has_diverged_ends_up_as_its_leader(
    shared: list[int], terms: list[tuple[bool, list[int]]]
) -> None:
    """Two replicas share a prefix, then each leads alone in some epochs, and at the end one follows the other."""
    first, second = Replica(), Replica()
    role = first.lead(0)
    for kind in shared:
        first.write(role, kind)
    second.copy(follow(second.state, 0, leader_id=1), first, first.state.log_end_offset)
    for epoch, (is_first, kinds) in enumerate(terms, 1):
        alone = first if is_first else second
        role = alone.lead(epoch)
        for kind in kinds:
            alone.write(role, kind)
    last = len(terms) + 1
    leader, follower = first.lead(last), follow(second.state, last, leader_id=1)
    for _ in range(last + 2):
        plan = leader.fetch(
            second.state.log_end_offset,
            max_bytes=1,
            isolation=Isolation.LOG_END,
            last_fetched_epoch=second.state.epochs.latest,
        )
        assert isinstance(plan, FetchPlan)
        if plan.diverging is None:
            break
        second.cut(follower, plan.diverging)
    else:
        raise AssertionError("the logs never agree")
    assert first.batches().startswith(second.batches())
    assert PartitionState.restore(second.store.load(), LogConfig()).snapshot() == second.state.snapshot()
    second.copy(follower, first, first.state.log_end_offset)
    follower.leader_commits(first.state.high_watermark)
    assert second.state.producers == first.state.producers
    assert second.state.aborted == first.state.aborted
    assert second.state.last_stable_offset == first.state.last_stable_offset
