"""The runtime of all coordinator shards; `coordinator/contract.py` describes the contract.

An operation runs to completion on the Trio thread, so operations never interleave. Its records are replayed at once and
appended to the shard's partition; the commit path writes all decisions made in the meantime in one transaction. A reply
is sent when the newest write that it may depend on is committed.
"""

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Generic, TypeVar

import trio

from odradek.coordinator.contract import Outcome, Producer, Reply, Shard, ShardRecord, Token, encode_batch
from odradek.gateway.coordinators.errors import unavailable
from odradek.gateway.coordinators.markers import BegunMarker, Marker, append_marker
from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Condition
from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable, TooLargeError
from odradek.gateway.replication.recovery import Episodes
from odradek.gateway.replication.replica import Replica
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.results import NO_LEADER_EPOCH, AppendOrigin, Rejected
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.records.batch import NO_PRODUCER_ID, check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import read_records

log = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S", bound=Shard)

LOAD_CHUNK_BYTES = 1024 * 1024
"""The number of bytes of the log read at once for replay."""
RELOAD_RETRY_MS = 1000
"""The pause before a shard that was discarded or not loaded is loaded again, if no request needs it."""
RETRY_MAX_MS = 60_000
"""The longest pause before a shard that cannot be decoded is loaded again, or the timers of one run after a defect."""
MAX_BEHIND_MS = 60_000
"""How far the clock of coordinators may be behind the wall clock."""
REPLAYED_AT_ONCE = 200
"""The number of records replayed before other tasks are scheduled, which also happens after each batch."""


class ShardState(Enum):
    """The state of a shard; only an active one answers."""

    NEW = "new"
    LOADING = "loading"
    ACTIVE = "active"
    STOPPED = "stopped"


class SteadyClock:
    """The shards' clock: the wall clock at the start plus the monotonic time since.

    Deadlines do not move when the wall clock is set, and timestamps are close to the wall clock's. A clock that
    `catches_up` is set forward when it is more than a minute behind the wall clock, which was set after the start (a
    machine without a battery for it), or went on while the machine was suspended. Sessions may then end early. But
    offsets would be stored with times so old that they expired at the next start.
    """

    def __init__(self, env: Environment, *, catches_up: bool = False) -> None:
        self._env = env
        self._catches_up = catches_up
        self._anchor_ms = env.wall_ms() - env.monotonic_ms()

    def now_ms(self) -> int:
        """Milliseconds that never go back."""
        now_ms = self._anchor_ms + self._env.monotonic_ms()
        if self._catches_up and (behind_ms := self._env.wall_ms() - now_ms) > MAX_BEHIND_MS:
            log.warning("the clock of the coordinators is set forward ms=%d", behind_ms)
            self._anchor_ms += behind_ms
            now_ms += behind_ms
        return now_ms


class ShardRuntime(Generic[S]):
    """Runs one shard over one partition.

    `make` builds a shard into which the log is replayed. `publish(shard)` is called after a load and after each
    operation that wrote records; the function that it returns is called once they are committed, before the replies are
    sent. An `empty` partition has nothing to replay, so callers wait while it is first opened instead of getting
    COORDINATOR_LOAD_IN_PROGRESS. If a write is not committed after the outcome's time-out, or else after
    `write_timeout_ms`, the reply is COORDINATOR_NOT_AVAILABLE, as in Kafka; the write itself remains. `start` returns
    the offset from which a new shard must replay.
    """

    def __init__(
        self,
        replica: Replica,
        clock: SteadyClock,
        make: Callable[[], S],
        *,
        publish: Callable[[S], Callable[[], None]] | None = None,
        on_deadline: Callable[[int | None], None] = lambda _: None,
        empty: bool = False,
        write_timeout_ms: int | None = None,
        start: Callable[[], int] = lambda: 0,
    ) -> None:
        self.replica = replica
        self.state = ShardState.NEW
        self._clock = clock
        self._make = make
        self._publish = publish
        self._on_deadline = on_deadline
        self._empty = empty
        self._write_timeout_ms = write_timeout_ms
        self._start = start
        self._leader_epoch = NO_LEADER_EPOCH
        self._reload_at_ms: int | None = None
        self._load_failures = 0
        self._timers_from_ms = 0
        self._timer_failures = 0
        self._defect = ""
        self._opened = Condition()
        self.shard: S = make()
        self._loading: S | None = None
        self._tokens = itertools.count(1)
        self.replies: dict[Token, Completion[object]] = {}
        self._undecodable = Episodes(log, replica.repeats, logging.ERROR)

    @property
    def deadline_ms(self) -> int | None:
        """The time at which the shard must be called, on its clock; not before its log accepts writes again.

        After an unexpected exception, also not before a pause.
        """
        due_ms = self.shard.next_deadline_ms() if self.state is ShardState.ACTIVE else None
        if due_ms is None:
            return None
        wait_ms = self.replica.write_wait_ms
        return max(due_ms, self._timers_from_ms, self._clock.now_ms() + wait_ms if wait_ms else 0)

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the log, in which the shard was loaded."""
        return self._leader_epoch

    @property
    def reload_at_ms(self) -> int | None:
        """When to load a shard, on its clock, that was discarded or could not be loaded; else None."""
        if self._reload_at_ms is None or self.state is not ShardState.NEW:
            return None
        return max(self._reload_at_ms, self._clock.now_ms() + self.replica.write_wait_ms)

    @property
    def next_offset(self) -> int:
        """The offset of the next record in the log. Raises PartitionUnavailable."""
        return self.replica.log.log_end_offset

    def change(self, change: Callable[[S], None]) -> None:
        """Change the shard's state outside its records, such as its settings; also that of one that is being loaded."""
        change(self.shard)
        if self._loading is not None:
            change(self._loading)

    async def load(self) -> None:
        """Replay the log into a new shard. Raises CoordinatorUnavailable when the partition cannot be read."""
        self.state = ShardState.LOADING
        shard = self._loading = self._make()
        try:
            await self._replay_log(shard)
        except (PartitionUnavailable, StoreError) as error:  # the replica has logged the cause
            failure = unavailable(error)
            if failure.error is ErrorCode.NOT_COORDINATOR:
                self.state = ShardState.STOPPED
            raise failure from error
        except (ProtocolError, InvalidRecordBatch) as error:
            self._undecodable.failed(self.replica.key, "coordinator shard not loaded", error)
            self._load_failures += 1
            raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        except Exception:
            self._load_failures += 1
            raise
        else:
            self._activate(shard)
        finally:
            self._loading = None
            if self.state is ShardState.LOADING:  # failed or cancelled
                self.state = ShardState.NEW
                self._reload_later()
            self._opened.notify()

    def _reload_later(self) -> None:
        """Load again at the next call, or without one: a transaction may have to be ended, or timed out.

        A log that cannot be decoded is read again after growing pauses, since each attempt may read all of it.
        """
        self._reload_at_ms = self._clock.now_ms() + _pause_ms(self._load_failures)
        self._on_deadline(self._reload_at_ms)

    def _activate(self, shard: S) -> None:
        if self.state is ShardState.STOPPED:
            raise CoordinatorUnavailable(ErrorCode.NOT_COORDINATOR)
        self._undecodable.succeeded(self.replica.key, "coordinator shard loaded")
        self._load_failures = 0
        self.shard, self.state, self._reload_at_ms, self._empty = shard, ShardState.ACTIVE, None, False
        # A new leader may have records that are not committed yet, and that may still be lost with its leadership.
        self.replica.all_committed().on_settled(partial(self._written, shard))
        self._apply(shard.on_loaded)
        if self._publish is not None and self.state is ShardState.ACTIVE:
            self._when_committed(self._publishing(shard, self._publish))

    def _publishing(self, shard: S, publish: Callable[[S], Callable[[], None]]) -> Callable[[], None]:
        """The action after a commit; none if the shard has been replaced by one that has loaded the same records."""
        act = publish(shard)

        def act_if_current() -> None:
            if shard is self.shard and self.state is ShardState.ACTIVE:
                act()

        return act_if_current

    async def _replay_log(self, shard: S) -> None:
        replica, now_ms = self.replica, self._clock.now_ms()
        await replica.ensure_open()
        self._leader_epoch = replica.leader.state.leader_epoch
        offset, end = max(replica.log.log_start_offset, self._start()), replica.log.log_end_offset
        await replica.durable(end).wait()  # what a new leader has fetched as a follower may still be in the queue
        while offset < end:
            lease = await replica.read(offset, end, LOAD_CHUNK_BYTES)
            try:
                next_offset = offset
                for chunk in lease.chunks:
                    for next_offset in replayed(shard, chunk, now_ms):  # noqa: B007 - the last one counts
                        await trio.lowlevel.checkpoint()
            finally:
                replica.give_back(lease)
            if next_offset <= offset:
                break  # compaction removed the remaining records
            offset = next_offset
            await trio.lowlevel.checkpoint()
        # Only while this broker leads in the same epoch does it know when what is loaded is committed.
        if replica.leader.state.leader_epoch != self._leader_epoch:
            raise PartitionUnavailable(ErrorCode.NOT_LEADER_OR_FOLLOWER, replica.key)

    async def call(self, operation: Callable[[S, Token, int], Outcome], *, reads: bool = False) -> object:
        """Run `operation(shard, token, now_ms)` and wait for its reply.

        Raises CoordinatorUnavailable. Cancelling the caller does not undo the operation. `reads`: see `begin`.
        """
        if self.state is not ShardState.ACTIVE:
            await self.ensure_active()
        token, reply = self._begin(operation, reads=reads)
        if reply.settled:
            return reply.result()
        try:
            return await reply.wait()
        finally:
            self.abandon(token)

    async def ask(self, question: Callable[[S, int], R]) -> R:
        """The result of `question(shard, now_ms)`, once all writes it may depend on are committed; it writes nothing.

        It also works while the log refuses writes. Raises CoordinatorUnavailable.
        """
        if self.state is not ShardState.ACTIVE:
            await self.ensure_active()
        shard = self.shard
        answer = question(shard, self._clock.now_ms())
        self._on_deadline(shard.next_deadline_ms())
        if not self.replica.all_committed().settled:
            await self._await_release(answer)
        return answer

    async def _await_release(self, answer: object) -> None:
        """Wait until a reply that depends on the writes so far may be sent."""
        token, reply = self._expect_reply()
        self._reply_when_committed((Reply(token, answer),))
        try:
            await reply.wait()
        finally:
            self.abandon(token)

    async def begin(
        self, operation: Callable[[S, Token, int], Outcome], *, reads: bool = False
    ) -> tuple[Token, Completion[object]]:
        """Run `operation(shard, token, now_ms)`; returns its reply's completion, and the token to `abandon` at the end.

        Raises CoordinatorUnavailable, also while the log refuses writes after a failure, unless the operation only
        `reads`. The shard's state is then as before the operation.
        """
        if self.state is not ShardState.ACTIVE:
            await self.ensure_active()
        return self._begin(operation, reads=reads)

    def _begin(self, operation: Callable[[S, Token, int], Outcome], *, reads: bool) -> tuple[Token, Completion[object]]:
        if not reads and not self.replica.takes_writes():
            raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        token, reply = self._expect_reply()
        try:
            self._apply(partial(operation, self.shard, token))
        except BaseException:
            self.abandon(token)
            raise
        return token, reply

    def _expect_reply(self) -> tuple[Token, Completion[object]]:
        token = Token(next(self._tokens))
        reply: Completion[object] = Completion()
        self.replies[token] = reply
        return token, reply

    def abandon(self, token: Token) -> None:
        """Drop the pending reply to `token`, if there is one; the operation itself remains in effect."""
        if self.replies.pop(token, None) is not None:
            self.shard.forget(token)

    async def ensure_active(self) -> None:
        """Load the shard unless it is active; it then is on return. Raises CoordinatorUnavailable."""
        while self._empty and self.state is ShardState.LOADING:
            await self._opened.wait()
        if self.state is ShardState.NEW:
            await self.load()
        if self.state is not ShardState.ACTIVE:
            loading = self.state is ShardState.LOADING
            raise CoordinatorUnavailable(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NOT_COORDINATOR
            )

    def run(self, operation: Callable[[S, int], Outcome]) -> None:
        """Run an operation without a reply, if the shard is active."""
        if self.state is ShardState.ACTIVE:
            shard = self.shard
            self._apply(lambda now_ms: operation(shard, now_ms))

    def on_time(self) -> bool:
        """Run the shard's due operations; True if any was due."""
        deadline_ms = self.deadline_ms
        is_due = deadline_ms is not None and deadline_ms <= self._clock.now_ms()
        if is_due:
            self._run_timers(self.shard, self._clock.now_ms())
        return is_due

    def _run_timers(self, shard: S, now_ms: int) -> None:
        try:
            outcomes = shard.on_time(now_ms)
            for outcome in _joined(outcomes, now_ms, self.replica.max_batch_bytes):
                self._carry_out(shard, outcome, now_ms)
            if now_ms >= self._timers_from_ms + RETRY_MAX_MS:
                self._timer_failures = 0
        except PartitionUnavailable as error:
            self._discard(shard, error)
        except Exception as error:  # noqa: BLE001 - a defect of one shard must not end the broker
            self._timers_failed(shard, error, now_ms)

    def _timers_failed(self, shard: S, error: Exception, now_ms: int) -> None:
        """Discard the shard after a defect, which is logged with a traceback the first time.

        The next shard answers requests at once, but the cause may still be in the log: its timers wait, longer each
        time until none has failed for a minute.
        """
        self._timers_from_ms = now_ms + _pause_ms(self._timer_failures)
        self._timer_failures += 1
        key, defect = self.replica.key, repr(error)
        if defect != self._defect:
            self._defect = defect
            log.error("timers of a coordinator shard failed, it is loaded again partition=%s", key, exc_info=error)
        else:
            text = "timers of a coordinator shard failed again partition=%s error=%s"
            self.replica.repeats.note(("timers", key), log, logging.ERROR, text, key, defect)
        self._discard(shard)

    def stop(self) -> None:
        """Fail every pending reply with NOT_COORDINATOR."""
        self.state = ShardState.STOPPED
        self._fail_all(ErrorCode.NOT_COORDINATOR)

    def _apply(self, decide: Callable[[int], Outcome]) -> None:
        now_ms = self._clock.now_ms()
        shard = self.shard
        try:
            self._carry_out(shard, decide(now_ms), now_ms)
        except PartitionUnavailable as error:
            self._discard(shard, error)

    def _carry_out(self, shard: S, outcome: Outcome, now_ms: int) -> None:
        """Write a decision and send its replies, or refuse it if it is too large. Raises PartitionUnavailable."""
        if outcome.records and not self._write(shard, outcome, now_ms):
            self._refuse(shard, outcome, now_ms)
        elif outcome.replies:
            self._reply_when_committed(outcome.replies, outcome.timeout_ms)
        self._on_deadline(shard.next_deadline_ms())

    def _write(self, shard: S, outcome: Outcome, now_ms: int) -> bool:
        """Replay and append a decision; False if it is too large. Raises PartitionUnavailable."""
        batches = _batches_of(outcome, now_ms, self.replica.max_batch_bytes)
        if batches is None:
            return False
        base_offset, epoch = self.next_offset, self.replica.log.leader_epoch
        for offset, record in enumerate(outcome.records, base_offset):
            shard.replay(record, offset, epoch, now_ms)
        for batch in batches:
            self._append(batch)
        assert self.next_offset == base_offset + len(outcome.records), "offsets are not those that were replayed"
        if self._publish is not None:
            self._when_committed(self._publishing(shard, self._publish))
        return True

    def _refuse(self, shard: S, outcome: Outcome, now_ms: int) -> None:
        log.error(
            "coordinator batch too large partition=%s about=%s records=%d (max.message.bytes of the topic)",
            self.replica.key,
            outcome.about,
            len(outcome.records),
        )
        shard.on_refused(outcome.about, now_ms)
        for reply in outcome.replies:
            self._fail(reply.token, TooLargeError())

    def end_transaction(self, marker: Marker) -> BegunMarker:
        """Append the marker that ends a producer's transaction in this shard's log. The shard must be active.

        The marker is the transaction coordinator's decision and not the shard's, so it needs no operation. `committed`
        of the result fails with CoordinatorUnavailable. Raises CoordinatorUnavailable; PartitionUnavailable with
        NOT_ENOUGH_REPLICAS, after which the shard remains: its log has everything that it has replayed.
        """
        now_ms = self._clock.now_ms()
        shard = self.shard
        try:
            begun = append_marker(self.replica, marker.encoded(now_ms))
        except PartitionUnavailable as error:
            if error.error is ErrorCode.NOT_ENOUGH_REPLICAS:
                raise
            self._discard(shard, error)
            raise unavailable(error) from error
        if begun.error:
            return begun
        shard.replay_end(marker.producer.producer_id, marker.committed, now_ms)
        begun.committed.on_settled(partial(self._written, shard))
        return BegunMarker(ErrorCode.NONE, begun.committed.then(_check_written))

    def _append(self, batch: bytes) -> None:
        result = self.replica.append(memoryview(batch), AppendOrigin.COORDINATOR, leader_epoch=self._leader_epoch)
        if isinstance(result, Rejected):
            # The broker was elected leader again after the shard was loaded, and others may have written in between.
            assert result.error is ErrorCode.FENCED_LEADER_EPOCH, f"our own batch was refused: {result}"
            raise PartitionUnavailable(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.replica.key)
        self.replica.committed(result.last_offset + 1).on_settled(partial(self._written, self.shard))

    def _reply_when_committed(self, replies: Sequence[Reply], timeout_ms: int | None = None) -> None:
        committed = self.replica.all_committed()
        if committed.settled:  # the most frequent case: a heartbeat writes nothing
            self._release(replies)
            return
        self._when_committed(partial(self._release, replies))
        timeout_ms = self._write_timeout_ms if timeout_ms is None else timeout_ms
        if timeout_ms is not None:
            self.replica.deadlines.watch(committed, timeout_ms, partial(self._time_out, replies))

    def _time_out(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            self._fail(reply.token, CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _when_committed(self, action: Callable[[], None]) -> None:
        """Call `action` when all writes so far are committed, at once if they are.

        If one of them fails, the shard is discarded instead, which fails pending replies: the failed write may be one
        that is not watched as the shard's own are, such as LeaderChange in the metadata log.
        """
        shard = self.shard

        def settled(write: Completion[None]) -> None:
            if write.error is None:
                action()
            self._written(shard, write)

        committed = self.replica.all_committed()
        if committed.settled:
            action()
        else:
            committed.on_settled(settled)

    def _release(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            completion = self.replies.pop(reply.token, None)
            if completion is not None:
                completion.settle(reply.value)

    def _fail(self, token: Token, error: CoordinatorUnavailable) -> None:
        completion = self.replies.pop(token, None)
        if completion is not None:
            completion.fail(error)

    def _written(self, shard: S, write: Completion[None]) -> None:
        if write.error is not None:
            self._discard(shard, write.error)

    def _discard(self, shard: S, cause: Exception | None = None) -> None:
        """Discard a shard whose records are not in the log; the next call loads a new one by replay.

        Pending replies fail by the `cause`: with NOT_COORDINATOR if this broker does not lead the partition any more.
        """
        if shard is not self.shard or self.state is not ShardState.ACTIVE:
            return
        if self.replica.is_first_failure:
            log.error("coordinator shard discarded partition=%s", self.replica.key)
        self.state = ShardState.NEW
        self.shard = self._make()
        self._reload_later()
        known = isinstance(cause, PartitionUnavailable | StoreError)
        self._fail_all(unavailable(cause).error if known else ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _fail_all(self, error: ErrorCode) -> None:
        for token in list(self.replies):
            self._fail(token, CoordinatorUnavailable(error))


def _check_written(write: Completion[None]) -> None:
    """Raise the error of a write as CoordinatorUnavailable."""
    if isinstance(write.error, StoreError | PartitionUnavailable):
        raise unavailable(write.error) from write.error
    write.result()


def _pause_ms(failures: int) -> int:
    return min(RELOAD_RETRY_MS << min(failures, 10), RETRY_MAX_MS)


def _joined(outcomes: Sequence[Outcome], now_ms: int, max_bytes: int) -> Sequence[Outcome]:
    """Several outcomes as one with one batch, which costs less, if they fit into it; otherwise as they are."""
    if len(outcomes) < 2:
        return outcomes
    records = [record for outcome in outcomes for record in outcome.records]
    replies = [reply for outcome in outcomes for reply in outcome.replies]
    if not records:
        return (Outcome((), replies),)
    batches = _batches(records, None, now_ms, max_bytes, whole=True)
    return outcomes if batches is None else (Outcome(records, replies, batch=batches[0]),)


def _batches_of(outcome: Outcome, now_ms: int, max_bytes: int) -> list[bytes] | None:
    """The batches to write; None if the outcome is too large."""
    if outcome.batch is not None:
        return [outcome.batch] if len(outcome.batch) <= max_bytes else None
    return _batches(outcome.records, outcome.producer, now_ms, max_bytes, whole=bool(outcome.replies))


def _batches(
    records: Sequence[ShardRecord], producer: Producer | None, now_ms: int, max_bytes: int, *, whole: bool
) -> list[bytes] | None:
    """The records as one batch, or as several unless they must stay `whole`; None if they do not fit.

    As in Kafka, records without a reply (expiry, deleted topics) may be written in parts.
    """
    if whole and sum([len(record.key) + len(record.value or b"") for record in records]) > max_bytes:
        return None  # a request may list far more than fits, and encoding all of it would take long
    batch = encode_batch(records, producer, now_ms)
    if len(batch) <= max_bytes:
        return [batch]
    if whole or len(records) == 1:
        return None
    middle = len(records) // 2
    first = _batches(records[:middle], producer, now_ms, max_bytes, whole=False)
    second = _batches(records[middle:], producer, now_ms, max_bytes, whole=False)
    return None if first is None or second is None else first + second


def replayed(shard: Shard, chunk: memoryview, now_ms: int) -> Iterator[int]:
    """Replay all records of the batches in `chunk`, at most `REPLAYED_AT_ONCE` between two yields.

    Yields the offset after the batch whose records are being replayed, also before its last record is. Raises
    InvalidRecordBatch for damaged batches.
    """
    for header in iter_headers(chunk):
        check_crc(chunk, header)
        if header.is_control:
            marker = read_end_txn_marker(chunk, header)
            if marker is not None:
                shard.replay_end(header.producer_id, not marker.is_abort, now_ms)
            yield header.next_offset
            continue
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for number, record in enumerate(read_records(chunk, header), 1):
            shard_record = ShardRecord(record.key or b"", record.value, producer_id)
            shard.replay(shard_record, record.offset, header.partition_leader_epoch, now_ms)
            if not number % REPLAYED_AT_ONCE:
                yield header.next_offset
        yield header.next_offset
