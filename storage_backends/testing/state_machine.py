"""Hypothesis runs all operations of a log in any order and compares it with `LogModel` after each."""

from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]
)

from odradek.partitions.model import AbortedTransaction, EpochStart, LogWrite, StoredBatch
from odradek.storage_backends.interface import LogPolicy, OffsetNotInStoreError, PartitionStore
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.storage_backends.testing.medium import StoreFactory, StoreMedium
from odradek.storage_backends.testing.model import LogModel

_BIG = 2**31 - 1

_batch_shapes = st.tuples(st.integers(1, 4), st.sampled_from([0, 40, 700, 3000]), st.integers(-400, 1000))
_producers = st.dictionaries(st.integers(0, 5), st.none() | st.binary(max_size=20), max_size=2)
_extras = st.sampled_from(["nothing", "nothing", "epoch", "aborted", "log start", "log end"])
_writes = st.lists(
    st.tuples(st.lists(_batch_shapes, max_size=4), _producers, _extras, st.floats(0, 1)), min_size=1, max_size=3
)
_policies = st.builds(LogPolicy, st.sampled_from([1, 900, 5000]), st.sampled_from([500, 10**9]), st.booleans())
_positions = st.floats(0, 1)


class LogMachine(RuleBasedStateMachine):
    """One log, initially empty. Subclassed with a factory by `check_against_model`."""

    factories: ClassVar[tuple[StoreFactory, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.medium: StoreMedium = self.factories[0]()
        self.policy = LogPolicy(segment_bytes=5000)
        self.model = LogModel()
        self.clock = 1000
        self.epoch = 0
        self.log = self._open()

    def _open(self) -> PartitionStore:
        self.store = self.medium.open()
        return self.store.open(KEY, self.policy)

    def teardown(self) -> None:
        """Close everything."""
        self.store.close()
        self.medium.destroy()

    def _offset(self, position: float) -> int:
        span = self.model.log_end_offset - self.model.log_start_offset
        return self.model.log_start_offset + round(position * span)

    @rule(shapes=_writes, sync=st.booleans())
    def commit(
        self, shapes: list[tuple[list[tuple[int, int, int]], dict[int, bytes | None], str, float]], sync: bool
    ) -> None:
        """Append batches, epochs, producers' rows, aborted transactions and a log start."""
        writes: list[LogWrite] = []
        for batch_shapes, producers, extra, position in shapes:
            write = self._write(self._batches(batch_shapes), producers, extra, position)
            writes.append(write)
            self.model.commit(write)
        self.log.commit(writes, sync=sync)

    def _batches(self, shapes: list[tuple[int, int, int]]) -> list[StoredBatch]:
        end_offset = self.model.log_end_offset
        batches: list[StoredBatch] = []
        for count, size_bytes, step_ms in shapes:
            self.clock = max(self.clock + step_ms, 0)
            payload = bytes([len(batches)]) * size_bytes
            batch = make_batch(end_offset, count, max_timestamp_ms=self.clock, leader_epoch=self.epoch, payload=payload)
            batches.append(batch)
            end_offset = batch.last_offset + 1
        return batches

    def _write(
        self, batches: list[StoredBatch], producers: dict[int, bytes | None], extra: str, position: float
    ) -> LogWrite:
        first = self.model.log_end_offset
        end_offset = batches[-1].last_offset + 1 if batches else first
        if extra == "epoch":
            self.epoch += 1
            return LogWrite(batches, [EpochStart(self.epoch, first)], producers)
        if extra == "aborted" and batches:
            ranges = [AbortedTransaction(7, self._offset(position), end_offset - 1, first)]
            return LogWrite(batches, (), producers, ranges)
        if extra == "log start":
            return LogWrite(batches, (), producers, (), self._offset(position))
        return LogWrite(batches, (), producers, (), end_offset if extra == "log end" else None)

    @rule(gaps=st.lists(st.integers(0, 5), min_size=1, max_size=4), sync=st.booleans())
    def replicate(self, gaps: list[int], sync: bool) -> None:
        """Append after a gap, as a follower of a leader with a compacted log does."""
        end_offset = self.model.log_end_offset
        batches: list[StoredBatch] = []
        for gap in gaps:
            batches.append(make_batch(end_offset + gap, 2, max_timestamp_ms=self.clock, leader_epoch=self.epoch))
            end_offset = batches[-1].last_offset + 1
        write = LogWrite(batches, replicated=True)
        self.model.commit(write)
        self.log.commit([write], sync=sync)

    @rule(gap=st.integers(1, 50))
    def restart_above_the_end(self, gap: int) -> None:
        """Set a log start above the log end, as a follower behind its leader's log start does."""
        write = LogWrite(log_start_offset=self.model.log_end_offset + gap)
        self.model.commit(write)
        self.log.commit([write], sync=True)

    @rule(start=_positions, end=_positions, max_bytes=st.sampled_from([0, 500, 5000, _BIG]))
    def read(self, start: float, end: float, max_bytes: int) -> None:
        """Read from any offset."""
        start_offset, end_offset = self._offset(start), self._offset(end)
        expected = self.model.readable(start_offset, end_offset)
        lease = self.log.read(start_offset, end_offset, max_bytes)
        got = b"".join(lease.chunks)
        assert lease.size_bytes == len(got)
        lease.release()
        assert b"".join([bytes(batch.data) for batch in expected]).startswith(got)
        if expected:
            assert len(expected[0].data) <= len(got) <= max(max_bytes, len(expected[0].data))
        if self._cuts_whole_batches(expected, len(got)):
            return
        raise AssertionError("a batch was cut")

    def _cuts_whole_batches(self, batches: list[StoredBatch], size_bytes: int) -> bool:
        for batch in batches:
            if size_bytes <= 0:
                break
            size_bytes -= len(batch.data)
        return size_bytes == 0

    @rule()
    def read_everything(self) -> None:
        """Read from start to end in steps, as a consumer does."""
        offset, got = self.model.log_start_offset, b""
        while offset < self.model.log_end_offset:
            lease = self.log.read(offset, self.model.log_end_offset, 2000)
            step = b"".join(lease.chunks)
            lease.release()
            got += step
            following = [each for each in self.model.batches if each.last_offset >= offset]
            if not step:
                assert not following
                break
            while step:
                step = step[len(following[0].data) :]
                offset = following.pop(0).last_offset + 1
        assert got == b"".join([bytes(batch.data) for batch in self.model.kept()])

    @rule(beyond=st.integers(1, 5))
    def read_out_of_range(self, beyond: int) -> None:
        """Read outside the log."""
        for offset in (self.model.log_end_offset + beyond, self.model.log_start_offset - beyond):
            try:
                self.log.read(offset, _BIG, 1000).release()
            except OffsetNotInStoreError:
                continue
            raise AssertionError(f"offset {offset} was read")

    @precondition(lambda self: len(self.log.segments()) > 1)
    @rule(position=_positions, extent=_positions, keep=st.integers(1, 3), keep_aborted=st.booleans())
    def clean(self, position: float, extent: float, keep: int, keep_aborted: bool) -> None:
        """Keep every `keep`th batch of some sealed segments, and their aborted transactions or none."""
        sealed = self.log.segments()[:-1]
        first = round(position * (len(sealed) - 1))
        last = first + round(extent * (len(sealed) - 1 - first))
        base_offset, end_offset = sealed[first].base_offset, sealed[last].end_offset
        inside = [each for each in self.model.batches if base_offset <= each.base_offset < end_offset]
        kept = [each for number, each in enumerate(inside) if number % keep == 0]
        ending = [each for each in self.model.aborted if base_offset <= each.last_offset < end_offset]
        draft = self.log.draft(base_offset, end_offset)
        for each in kept:
            draft.add([each])
        draft.seal(ending if keep_aborted else [])
        assert self.log.replace(draft)
        self.model.clean(base_offset, end_offset, kept, ending if keep_aborted else [])
        write = LogWrite(clean_offset=end_offset)
        self.model.commit(write)
        self.log.commit([write], sync=True)

    @precondition(lambda self: self.model.batches)
    @rule(position=st.floats(-0.2, 1.2), rebuilt=st.dictionaries(st.integers(0, 4), st.binary(max_size=3)))
    def truncate(self, position: float, rebuilt: dict[int, bytes]) -> None:
        """Truncate at any offset."""
        end_offset = max(self._offset(position), 0)
        self.model.truncate(end_offset, rebuilt)
        snapshot = self.log.truncate(end_offset, rebuilt)
        assert snapshot == self.model.snapshot(snapshot.max_timestamp_ms)

    @rule(position=_positions)
    def producers_before(self, position: float) -> None:
        """Get the rows of an earlier log end: either all of them or none."""
        end_offset = self._offset(position)
        known = self.log.producers_before(end_offset)
        assert self.model.log_start_offset <= known.end_offset <= end_offset
        if known.rows or known.end_offset > self.model.log_start_offset:
            assert known.rows in self.model.rows_at[known.end_offset]

    @rule(policy=_policies)
    def configure(self, policy: LogPolicy) -> None:
        """Change the policy."""
        self.policy = policy
        self.log.configure(policy)

    @rule()
    def reopen(self) -> None:
        """Close everything and open it again."""
        before, segments = self.log.load(), list(self.log.segments())
        self.store.close()
        self.log = self._open()
        assert self.log.load() == before
        assert list(self.log.segments()) == segments

    @rule(timestamp_ms=st.integers(0, 12_000))
    def find_by_timestamp(self, timestamp_ms: int) -> None:
        """Search by time."""
        late = (batch.base_offset for batch in self.model.kept() if batch.max_timestamp_ms >= timestamp_ms)
        assert self.log.find_by_timestamp(timestamp_ms) == next(late, None)

    @rule()
    def find_max_timestamp(self) -> None:
        """Search the largest timestamp."""
        largest = self.model.max_timestamp_ms()
        first = (batch.base_offset for batch in self.model.kept() if batch.max_timestamp_ms == largest)
        assert self.log.find_max_timestamp() == next(first, None)

    @invariant()
    def state_is_the_model_s(self) -> None:
        """Compare everything except the batches."""
        snapshot = self.log.load()
        assert snapshot == self.model.snapshot(snapshot.max_timestamp_ms)
        largest = max((batch.max_timestamp_ms for batch in self.model.batches), default=-1)
        assert self.model.max_timestamp_ms() <= snapshot.max_timestamp_ms <= largest

    @invariant()
    def segments_cover_the_log(self) -> None:
        """They are contiguous, from at most the log start to the log end, and the last one is active."""
        segments = self.log.segments()
        assert segments[0].base_offset <= self.model.log_start_offset
        assert [each.end_offset for each in segments[:-1]] == [each.base_offset for each in segments[1:]]
        assert segments[-1].end_offset == self.model.log_end_offset
        assert [each.sealed for each in segments] == [True] * (len(segments) - 1) + [False]
        assert sum(each.size_bytes for each in segments) >= sum(len(each.data) for each in self.model.kept())


def check_against_model(factory: StoreFactory, *, max_examples: int = 25, steps: int = 25) -> None:
    """Run the state machine over new media; fails with the shortest failing sequence of operations."""
    machine = type("BoundLogMachine", (LogMachine,), {"factories": (factory,)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
        ),
    )
