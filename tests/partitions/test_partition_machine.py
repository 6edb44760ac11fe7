"""A log under random commands, compared with a model of the producers and with itself restored from its writes."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from partition_fakes import NOW_MS, StoredLog, data_batch, end_marker, marker_of, of_producer

from odradek.partitions.config import LogConfig
from odradek.partitions.leader import lead
from odradek.partitions.model import LogSnapshot, LogWrite
from odradek.partitions.results import Appended, AppendOrigin, Duplicate, Isolation, Rejected
from odradek.partitions.state import PartitionState
from odradek.wire.errors import ErrorCode

EXPIRATION_MS = 1000
SEQUENCES = 2**31
CONFIG = LogConfig(producer_id_expiration_ms=EXPIRATION_MS)
producer_ids = st.integers(1, 2)
epochs = st.integers(0, 3)


@dataclass
class ModelProducer:
    """All batches of a producer in its epoch: (first sequence, last sequence, base offset, last offset)."""

    epoch: int
    written: list[tuple[int, int, int, int]] = field(default_factory=list)
    open_since: int | None = None
    coordinator_epoch: int = -1
    seen_ms: int = 0


class LogMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now_ms = NOW_MS
        self.store = StoredLog()
        self.pending: list[tuple[LogWrite, int]] = []
        self.model: dict[int, ModelProducer] = {}
        self.decided: list[tuple[int, int]] = []
        self.aborted: list[tuple[int, int, int]] = []
        self.log = PartitionState.restore(LogSnapshot(), CONFIG)
        self._lead(0)

    def _lead(self, epoch: int) -> None:
        self.leader, write = lead(self.log, epoch)
        self._note(write)

    def _note(self, write: LogWrite | None) -> None:
        if write is not None:
            self.pending.append((write, self.log.log_end_offset))

    def _expected(self, producer_id: int, epoch: int, first: int, count: int, *, transactional: bool) -> object:
        known = self.model.get(producer_id)
        if known is None:
            return Appended
        last = (first + count - 1) % SEQUENCES
        for batch in known.written[-5:]:
            if epoch == known.epoch and batch[:2] == (first, last):
                return Duplicate(batch[2], batch[3], self.stamps[batch[2]])
        if epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        following = (known.written[-1][1] + 1) % SEQUENCES if known.written and epoch == known.epoch else 0
        if first != following:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return Appended if transactional or known.open_since is None else ErrorCode.INVALID_TXN_STATE

    stamps: dict[int, int]

    @initialize()
    def no_stamps(self) -> None:
        self.stamps = {}

    @rule(
        producer_id=producer_ids,
        raise_epoch=st.sampled_from([0, 0, 0, 0, 1, -1]),
        step=st.sampled_from([0, 0, 0, 0, -1, 1, -2, SEQUENCES - 3]),
        count=st.integers(1, 3),
        transactional=st.booleans(),
    )
    def produce(self, producer_id: int, raise_epoch: int, step: int, count: int, transactional: bool) -> None:
        known = self.model.get(producer_id)
        epoch = max(0, (known.epoch if known else 0) + raise_epoch)
        following = known.written[-1][1] + 1 if known and known.written and epoch == known.epoch else 0
        first = (following + step) % SEQUENCES
        self._produce(producer_id, epoch, first, count, transactional=transactional)

    @rule(producer_id=producer_ids, back=st.integers(1, 8), transactional=st.booleans())
    def retry(self, producer_id: int, back: int, transactional: bool) -> None:
        known = self.model.get(producer_id)
        if known and len(known.written) >= back:
            first, last, _, _ = known.written[-back]
            count = (last - first) % SEQUENCES + 1
            self._produce(producer_id, known.epoch, first, count, transactional=transactional)

    def _produce(self, producer_id: int, epoch: int, first: int, count: int, *, transactional: bool) -> None:
        expected = self._expected(producer_id, epoch, first, count, transactional=transactional)
        records = of_producer(
            producer_id, first, epoch=epoch, transactional=transactional, timestamps=[self.now_ms] * count
        )
        end = self.log.log_end_offset
        result = self.leader.append(records, origin=AppendOrigin.CLIENT, now_ms=self.now_ms)
        if expected is not Appended:
            assert (result.error if isinstance(result, Rejected) else result) == expected
            return
        assert isinstance(result, Appended)
        assert (result.base_offset, result.last_offset) == (end, end + count - 1)
        self._note(result.write)
        known = self.model.setdefault(producer_id, ModelProducer(epoch))
        if known.epoch != epoch:
            known.epoch, known.written = epoch, []
        known.written.append((first, (first + count - 1) % SEQUENCES, end, end + count - 1))
        known.seen_ms = self.stamps[end] = self.now_ms
        if transactional and known.open_since is None:
            known.open_since = end

    @rule(
        producer_id=producer_ids,
        raise_epoch=st.sampled_from([0, 1, -1]),
        coordinator_epoch=epochs,
        committed=st.booleans(),
        version=st.sampled_from([0, 2]),
    )
    def mark(self, producer_id: int, raise_epoch: int, coordinator_epoch: int, committed: bool, version: int) -> None:
        known = self.model.get(producer_id)
        epoch = max(0, (known.epoch if known else 0) + raise_epoch)
        records = end_marker(
            producer_id, committed=committed, epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp_ms=self.now_ms
        )
        end = self.log.log_end_offset
        result = self.leader.append(
            records, origin=AppendOrigin.COORDINATOR, now_ms=self.now_ms, marker=marker_of(records, version)
        )
        if known is not None:
            late = epoch < known.epoch or (version == 2 and epoch == known.epoch and known.open_since is not None)
            if late:
                assert result.error is ErrorCode.INVALID_PRODUCER_EPOCH
                return
            if coordinator_epoch < known.coordinator_epoch:
                assert result.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED
                return
        assert isinstance(result, Appended)
        self._note(result.write)
        known = self.model.setdefault(producer_id, ModelProducer(epoch))
        if known.epoch != epoch:
            known.epoch, known.written = epoch, []
        known.coordinator_epoch, known.seen_ms = coordinator_epoch, self.now_ms
        if known.open_since is not None:
            self.decided.append((known.open_since, end))
            if not committed:
                self.aborted.append((producer_id, known.open_since, end))
        known.open_since = None

    @rule(producer_id=producer_ids, batches=st.integers(2, 7), transactional=st.booleans())
    def produce_many(self, producer_id: int, batches: int, transactional: bool) -> None:
        for _ in range(batches):
            self.produce(producer_id, 0, 0, 1, transactional)

    @rule(producer_id=producer_ids, committed=st.booleans(), raise_epoch=st.sampled_from([0, 1]))
    def transact(self, producer_id: int, committed: bool, raise_epoch: int) -> None:
        self.produce(producer_id, 0, 0, 2, transactional=True)
        self.mark(producer_id, raise_epoch, 3, committed, 0)

    @rule(count=st.integers(1, 3))
    def produce_plain(self, count: int) -> None:
        result = self.leader.append(data_batch(count), origin=AppendOrigin.CLIENT, now_ms=self.now_ms)
        assert isinstance(result, Appended)
        self._note(result.write)

    @rule(share=st.sampled_from([0, 0, 1, 2, 4]))
    def commit(self, share: int) -> None:
        """The store makes some of the pending writes durable, in order."""
        done = self.pending[: max(1, len(self.pending) * share // 4)]
        del self.pending[: len(done)]
        for write, _ in done:
            self.store.commit(write)
        if done:
            before = self.log.high_watermark
            assert self.leader.durable(done[-1][1]) is (self.log.high_watermark > before)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.high_watermark))
        write = self.log.move_log_start(offset)
        assert isinstance(write, LogWrite)
        self._note(write)

    @rule(passed_ms=st.sampled_from([1, EXPIRATION_MS // 2, EXPIRATION_MS]))
    def expire(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self._note(self.log.expire_producers(self.now_ms))
        self._forget()

    @rule()
    def lead_again(self) -> None:
        self._lead(self.log.leader_epoch + 1)
        self._forget()

    def _forget(self) -> None:
        idle_since = self.now_ms - EXPIRATION_MS
        for producer_id, known in list(self.model.items()):
            if known.open_since is None and known.seen_ms <= idle_since:
                del self.model[producer_id]

    @rule()
    def crash(self) -> None:
        """Commits everything first: the model cannot drop what is not durable."""
        self.commit(4)
        self.log = PartitionState.restore(self.store.load(), CONFIG)
        self._forget()
        self._lead(self.log.leader_epoch)

    @invariant()
    def restored_equals_live(self) -> None:
        replayed = StoredLog()
        replayed.__dict__.update(
            {name: value.copy() if hasattr(value, "copy") else value for name, value in vars(self.store).items()}
        )
        for write, _ in self.pending:
            replayed.commit(write)
        assert PartitionState.restore(replayed.load(), CONFIG).snapshot() == self.log.snapshot()

    @invariant()
    def offsets_are_ordered(self) -> None:
        log = self.log
        marks = [log.log_start_offset, log.last_stable_offset, log.high_watermark, log.durable_end_offset]
        assert marks == sorted(marks)
        assert log.durable_end_offset <= log.log_end_offset

    @invariant()
    def the_last_stable_offset_is_the_models(self) -> None:
        log = self.log
        unstable = [known.open_since for known in self.model.values() if known.open_since is not None]
        unstable += [first for first, marker in self.decided if marker >= log.high_watermark]
        expected = min([*unstable, log.high_watermark])
        assert log.last_stable_offset == max(expected, log.log_start_offset)

    @invariant()
    def aborted_transactions_are_the_models(self) -> None:
        log = self.log
        plan = self.leader.fetch(
            log.log_start_offset, max_bytes=1, isolation=Isolation.READ_COMMITTED, current_leader_epoch=log.leader_epoch
        )
        assert not isinstance(plan, Rejected)
        found = [
            (one.producer_id, one.first_offset, one.last_offset) for one in self.leader.aborted_in(plan.start, plan.end)
        ]
        assert found == [one for one in self.aborted if one[2] >= plan.start and one[1] < plan.end]
        assert plan.aborted is bool(found)


LogMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLogMachine = LogMachine.TestCase
