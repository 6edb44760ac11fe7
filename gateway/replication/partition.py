"""The log of one partition on this broker, as leader or follower: its pure state joined to its store.

Offsets are assigned on the Trio thread when a batch is accepted; the batch is durable when its commit settles, and only
then can the high watermark pass it. When a commit fails, all offsets assigned after the last durable one are void: the
store's log is closed and opened again, the pure log is rebuilt from disk, and the partition continues to serve. Reads
work from then on; writes are accepted again after a pause (`recovery.py`). The leader epoch is stored with the first
write and not at the opening, so that a log can be opened and read while the disk is full.

    closed ──ensure_open──► open ──write failed──► failed ──ensure_open──► open
                            open ──truncated, restarted──► rewriting ──done──► open
       any ──close──► deleted (the topic was deleted, or the broker stops)
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import field
from enum import Enum
from functools import partial
from typing import Final, TypeVar

import trio

from odradek.gateway.env.completion import DONE, Completion
from odradek.gateway.env.deadlines import Deadlines
from odradek.gateway.env.durations import Durations
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Condition, Ticker, Watchable
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.assignment import Assignment, no_broker
from odradek.gateway.replication.commit import Backlog, CommitQueue, UnexpectedError
from odradek.gateway.replication.isr_changes import IsrChanges
from odradek.gateway.replication.log_view import LogView
from odradek.gateway.replication.policy import is_synced, policy_of
from odradek.gateway.replication.progress import OffsetWaits
from odradek.gateway.replication.proposals import NO_CONTROLLER, IsrProposals
from odradek.gateway.replication.recovery import Backoff, Recovery, exhausted, shared_cause
from odradek.gateway.replication.throttles import Throttles
from odradek.gateway.replication.traffic import Traffic
from odradek.partitions.config import LogConfig
from odradek.partitions.fetching.throttle import is_throttled
from odradek.partitions.follower import Follower
from odradek.partitions.in_sync import Brokers
from odradek.partitions.leader import Leader
from odradek.partitions.model import AbortedTransaction, LogWrite, PartitionKey
from odradek.partitions.producers import ProducerEntry, ProducerRowError
from odradek.partitions.results import Rejected
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import (
    OffsetNotInStoreError,
    PartitionStore,
    ReadLease,
    SegmentDraft,
    Store,
    StoreError,
)
from odradek.wire.errors import ErrorCode
from odradek.wire.values import immutable

log = logging.getLogger(__name__)

T = TypeVar("T")

LEASES_WAIT_S: Final = 1.0
"""How long reopening a failed log waits for its readers, in seconds; slower connections have their own time-out."""


class ReplicaState(Enum):
    """The state of a replica's log; see the module's docstring."""

    CLOSED = "closed"
    OPEN = "open"
    REWRITING = "rewriting"
    FAILED = "failed"
    DELETED = "deleted"


OPEN: Final = ReplicaState.OPEN
"""A constant for fast comparison: looking up a member of an Enum takes as long as a call."""


@immutable
class LogResources:
    """Resources shared by all logs of a broker. The ticker's nursery must outlive them."""

    store: Store
    env: Environment
    ticker: Ticker
    deadlines: Deadlines
    backlog: Backlog
    commit_max_bytes: int
    repeats: Repeats
    backoff: Backoff = Backoff()
    traffic: Traffic = field(default_factory=Traffic)
    commit_times: Durations = field(default_factory=Durations)
    proposals: IsrProposals = NO_CONTROLLER
    isr_changes: IsrChanges = field(default_factory=IsrChanges)
    unwritable_ms: dict[PartitionKey, tuple[int, int]] = field(default_factory=dict[PartitionKey, tuple[int, int]])
    """The logs whose last commit has failed: the monotonic times of the first and the last failed attempt in a row.

    Attempts to open such a log count, too: while that fails, no commit is tried.
    """
    throttles: Throttles = field(default_factory=Throttles)


class PartitionLog(Watchable):
    """A log, its store and the waits for its offsets. `leading.py` and `following.py` add the two roles."""

    def __init__(
        self,
        key: PartitionKey,
        config: LogConfig,
        assigned: Assignment,
        resources: LogResources,
        brokers: Brokers = no_broker,
    ) -> None:
        super().__init__()
        self.key = key
        self._brokers = brokers
        self.state = ReplicaState.CLOSED
        self._config = config
        self._assigned = assigned
        self._resources = resources
        self._env = resources.env
        self._opening = trio.Lock()
        self.leases = 0
        self._no_leases = Condition()
        self._log: PartitionState | None = None
        self._role: Leader | Follower | None = None
        self._part: PartitionStore | None = None
        self._queue: CommitQueue | None = None
        self._start_moved = DONE
        self._durable_waits = OffsetWaits()
        self._committed_waits = OffsetWaits()
        self._deleted_waits: OffsetWaits | None = None
        self._withdrawn = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._refused: dict[int, ProducerEntry] = {}
        self._idle_view: LogView | None = None
        self._tail: Watchable | None = None
        self._epoch_write: LogWrite | None = None
        self._recovery = Recovery(key, resources.env, resources.backoff, resources.repeats)
        self.traffic = resources.traffic.of(key.topic)

    @property
    def repeats(self) -> Repeats:
        """Counts and logs repeated failures."""
        return self._resources.repeats

    @property
    def deadlines(self) -> Deadlines:
        """The time-outs of waits for a commit."""
        return self._resources.deadlines

    @property
    def config(self) -> LogConfig:
        """The topic's settings in force."""
        return self._config

    @property
    def log(self) -> PartitionState:
        """The log's offsets, epochs and producers. Raises PartitionUnavailable when the partition is unavailable."""
        if self.state is not OPEN:
            self._refuse()
        assert self._log is not None
        return self._log

    @property
    def open_log(self) -> PartitionState | None:
        """The log if it is open, else None; may be called from any thread."""
        return self._log if self.state is OPEN else None

    @property
    def role(self) -> Leader | Follower:
        """This replica's current role. Raises PartitionUnavailable when the partition is unavailable."""
        if self.state is not ReplicaState.OPEN:
            self._refuse()
        assert self._role is not None
        return self._role

    @property
    def tail(self) -> Watchable:
        """Watched by the fetches of followers: notified when more is durable, whether or not it is committed."""
        if self._tail is None:
            self._tail = Watchable()
        return self._tail

    def throttled_by(self, replicas: Collection[str]) -> bool:
        """True if a topic's list of throttled replicas contains this one."""
        return is_throttled(replicas, self.key.index, self._assigned.membership.broker_id)

    def _not_leader(self) -> PartitionUnavailable:
        return PartitionUnavailable(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.key)

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that the topic's settings allow."""
        return min(self._config.max_message_bytes, self._config.segment_bytes)

    def _offline(self) -> PartitionUnavailable:
        return PartitionUnavailable(ErrorCode.KAFKA_STORAGE_ERROR, self.key)

    def _deleted(self) -> PartitionUnavailable:
        return PartitionUnavailable(self._withdrawn, self.key)

    def _refuse(self) -> None:
        if self.state is ReplicaState.DELETED:
            raise self._deleted()
        raise self._offline()

    async def ensure_open(self) -> None:
        """Open the log unless it is open; concurrent callers share one opening.

        Raises PartitionUnavailable when the store cannot open it (a later call tries again, see `recovery`) and when
        the partition was deleted. Cancellation leaves the log's state unchanged.
        """
        if self.state is ReplicaState.OPEN:
            return
        async with self._opening:
            if self.state in (ReplicaState.CLOSED, ReplicaState.FAILED):
                if not self._recovery.may_try(self._recovery.opening):
                    raise self._offline()
                await self._open_or_reload()
            elif self.state is ReplicaState.DELETED:
                raise self._deleted()

    async def _open_or_reload(self) -> None:
        failed = self.state is ReplicaState.FAILED
        try:
            if failed:
                await self._close_failed()
            restored = await self._env.run_blocking(partial(self._load, self._config))
        except (StoreError, ProducerRowError) as error:
            self._note_unopened()
            if exhausted(error):  # the process's fault, not this log's: every use tries again without a pause
                self._note("open", error, "cannot open partition=%s error=%s", self.key, error)
            else:
                self._recovery.failed(self._recovery.opening, "cannot open", error)
            raise self._offline() from error
        except Exception as error:
            self._note_unopened()
            self._recovery.failed(self._recovery.opening, "cannot open", error, trace=True)
            raise self._offline() from error
        if self.state is ReplicaState.DELETED:  # its topic was deleted meanwhile
            raise self._deleted()
        if failed and self._log is not None:
            restored.await_first_batch_retry(self._log.producers)
            restored.raise_high_watermark(self._log.high_watermark)  # committed records cannot have been lost
        restored.await_first_batch_retry(self._refused)
        self._refused.clear()
        self._lead(restored)
        self._recovery.succeeded(self._recovery.opening, restored.log_end_offset)

    async def _close_failed(self) -> None:
        """Close the store's log, which can only be reopened when no reader has a lease on it."""
        if self._queue is not None:
            await self._queue.drained()
        with trio.move_on_after(LEASES_WAIT_S):
            while self.leases:
                await self._no_leases.wait()
        if self.leases:
            raise StoreError(f"{self.leases} readers still hold what they read of {self.key}")
        part, self._part = self._part, None
        if part is not None:
            await self._env.run_blocking(partial(_close_quietly, part))

    def _note(self, operation: str, error: Exception, message: str, *args: object) -> None:
        """Log a failure once for as long as it repeats: for this log, or for all logs that share the cause."""
        key = (operation, shared_cause(error) or self.key)
        self._resources.repeats.note(key, log, logging.ERROR, message, *args)

    def _load(self, config: LogConfig) -> PartitionState:
        """Load the log. Runs in a thread, since a log may have tens of thousands of producers."""
        if self._part is None:
            self._part = self._resources.store.open(self.key, policy_of(config))
        return PartitionState.restore(self._part.load(), config)

    def _lead(self, restored: PartitionState) -> None:
        assert self._part is not None
        if self._queue is None:
            self._queue = CommitQueue(
                self._part,
                self._env,
                self._resources.ticker,
                self._resources.backlog,
                max_bytes=self._resources.commit_max_bytes,
                times=self._resources.commit_times,
                synced=is_synced(self._config),
                on_durable=self._durable,
                on_failure=self._failed,
            )
        self._queue.reset(self._part)
        self._queue.synced = is_synced(self._config)
        self._part.configure(policy_of(self._config))  # it may have changed while the log was being opened
        restored.configure(self._config)
        self._log = restored
        self.state, self._idle_view = ReplicaState.OPEN, None
        self._role, self._epoch_write = self._role_over(restored)
        self.notify()  # a log that has failed may have more records: those of a commit that was made although it failed

    def _role_over(self, state: PartitionState) -> tuple[Leader | Follower, LogWrite | None]:
        return self._assigned.role_over(state, self._brokers, self._env.monotonic_ms(), self._role)

    async def view(self) -> LogView:
        """The log's offsets and segments; a closed log is not kept open. The log must exist in the store.

        Raises PartitionUnavailable, StoreError.
        """
        if self.state is ReplicaState.CLOSED:
            async with self._opening:
                if self.state is ReplicaState.CLOSED:
                    self._idle_view = self._idle_view or await self._env.run_blocking(self._look)
                    return self._idle_view
        if self.state is not OPEN:
            await self.ensure_open()
        log = self.log
        assert self._part is not None
        return LogView.of(self._part, log)

    def _look(self) -> LogView:
        part = self._resources.store.open(self.key, policy_of(self._config))
        try:
            restored = PartitionState.restore(part.load(), self._config)
            self._role_over(restored)  # the role sets the high watermark
            return LogView.of(part, restored)
        except ProducerRowError as error:
            raise self._offline() from error
        finally:
            part.close()

    async def move_log_start(self, offset: int) -> Rejected | None:
        """Delete the records below `offset` (-1: below the high watermark); durable on return.

        Not refused during the pause after a failed write, since it may make the space that writes need. Returns the
        refusal of an offset outside the log. Raises PartitionUnavailable, StoreError.
        """
        write = self.log.move_log_start(offset)
        if isinstance(write, Rejected):
            return write
        if self._keeps_deleted_records():
            write = LogWrite(log_start_offset=self.log.log_start_offset)
        if write.log_start_offset is not None:
            self._start_moved = self.write(write)
        if not self._start_moved.settled:  # an earlier call may have moved it, with its write still in flight
            await self._start_moved.wait()
        return None

    def _keeps_deleted_records(self) -> bool:
        """True if the log is empty and its newest segment is not. Writing the log start then begins a new segment."""
        assert self._part is not None
        log = self.log
        return log.log_start_offset == log.log_end_offset and self._part.segments()[-1].size_bytes > 0

    def durable(self, offset: int) -> Completion[None]:
        """Settled when all records below `offset` are durable on this broker; fails with StoreError.

        Raises PartitionUnavailable.
        """
        return DONE if offset <= self.log.durable_end_offset else self._durable_waits.until(offset)

    def committed(self, offset: int) -> Completion[None]:
        """Settled when all records below `offset` are durable on all in-sync replicas.

        Fails with StoreError, and with PartitionUnavailable if this broker becomes a follower, the topic is deleted, or
        the partition moves to other brokers. Raises PartitionUnavailable.
        """
        return DONE if offset <= self.log.high_watermark else self._committed_waits.until(offset)

    def all_committed(self) -> Completion[None]:
        """`committed` for all records that are in the log now. Settled for a log that is not open."""
        log = self._log
        if self.state is not OPEN or log is None or log.log_end_offset <= log.high_watermark:
            return DONE
        return self.committed(log.log_end_offset)

    def _submit(self, write: LogWrite, end_offset: int) -> Completion[None]:
        assert self._queue is not None
        try:
            if self._epoch_write is not None:
                self._queue.submit(self._epoch_write, self._epoch_write.epochs[0].start_offset)
                self._epoch_write = None
            return self._queue.submit(write, end_offset)
        except StoreError as error:
            raise self._offline() from error

    @property
    def write_wait_ms(self) -> int:
        """The time until a write is accepted after one has failed; 0 when one may be tried."""
        return self._recovery.writing.wait_ms

    @property
    def is_failing(self) -> bool:
        """True if the log cannot be opened or written, also between two attempts; may be called from any thread."""
        return self._recovery.is_failing

    @property
    def is_first_failure(self) -> bool:
        """True if the log has failed once and was not retried since, for a cause that affects only this log."""
        return self._recovery.is_first

    def takes_writes(self) -> bool:
        """True if a write may be tried now; otherwise it is counted as refused."""
        return self._recovery.may_try(self._recovery.writing)

    def _check_writable(self) -> None:
        if self._recovery.writing.is_failing and not self.takes_writes():
            raise self._offline()

    def write(self, write: LogWrite) -> Completion[None]:
        """Queue a change of the log without a batch (a moved log start, expired producers)."""
        return self._submit(write, self.log.log_end_offset)

    def mark_clean(self, clean_offset: int) -> Completion[None]:
        """Note that everything below `clean_offset` is compacted. Raises as `append` does."""
        self._check_writable()
        return self.write(self.log.compacted(clean_offset))

    def expire_producers(self) -> None:
        """Remove producers that were inactive for `producer.id.expiration.ms`."""
        if self.state is ReplicaState.OPEN and not self.write_wait_ms:
            write = self.log.expire_producers(self._env.wall_ms())
            if write is not None:
                self.write(write)

    async def read(self, start_offset: int, end_offset: int, max_bytes: int) -> ReadLease:
        """Borrow batches from the store; the caller must `give_back` the lease. Raises PartitionUnavailable."""
        self.log  # noqa: B018 - raises if the partition is unavailable
        assert self._part is not None
        self.leases += 1
        try:
            part = self._part
            if part.is_hot(start_offset):
                lease = part.read(start_offset, end_offset, max_bytes)
            else:
                lease = await self._env.run_blocking(lambda: part.read(start_offset, end_offset, max_bytes))
        except BaseException as error:
            self._lease_ended()
            if isinstance(error, StoreError):
                if not isinstance(error, OffsetNotInStoreError) or self._contains(start_offset):
                    self._note(
                        "read", error, "cannot read partition=%s offset=%d error=%s", self.key, start_offset, error
                    )
                raise self._offline() from error
            raise
        return lease

    def _contains(self, offset: int) -> bool:
        """False if the offset is not in the log now, for example because it was deleted during a read."""
        log = self.open_log
        return log is not None and log.log_start_offset <= offset <= log.log_end_offset

    def give_back(self, lease: ReadLease) -> None:
        """End a lease from `read`."""
        lease.release()
        self._lease_ended()

    def _lease_ended(self) -> None:
        self.leases -= 1
        if not self.leases:
            self._no_leases.notify()

    async def look_up(self, lookup: Callable[[PartitionStore], int | None]) -> int | None:
        """Look up an offset in the store (by timestamp) in a thread. Raises PartitionUnavailable."""
        try:
            return await self.borrow(lookup)
        except StoreError as error:
            raise self._offline() from error

    async def borrow(self, call: Callable[[PartitionStore], T]) -> T:
        """Run `call` on the store's log in a thread, concurrently with its writer.

        The log stays open until it is done. Raises PartitionUnavailable and what `call` raises.
        """
        self.log  # noqa: B018 - raises if the partition is unavailable
        part = self._part
        assert part is not None
        self.leases += 1
        try:
            return await self._env.run_blocking(lambda: call(part))
        finally:
            self._lease_ended()

    async def replace(self, run: tuple[int, int], draft: SegmentDraft, aborted: Sequence[AbortedTransaction]) -> bool:
        """Replace the segments of `run` (from, to) by a sealed draft; False if they have changed.

        `aborted` are the aborted transactions with which it was sealed. Raises PartitionUnavailable, StoreError; then
        nothing has changed, unless the store's log is `failed`: when reopened it has the old segments or the new one.
        """
        log, part, queue = self.log, self._part, self._queue
        assert part is not None
        assert queue is not None
        before = [each for each in log.aborted if run[0] <= each.last_offset < run[1]]
        log.keep_aborted(*run, aborted)
        replaced = False
        try:
            replaced = await queue.exclusively(lambda: part.replace(draft))
        finally:
            if not replaced:
                log.keep_aborted(*run, before)
        return replaced

    def configure(self, config: LogConfig) -> None:
        """Apply changed topic settings."""
        if config is self._config:
            return
        self._config = config
        if self._log is not None:
            self._log.configure(config)
        if self._queue is not None:
            self._queue.synced = is_synced(config)
        if self._part is not None:
            self._part.configure(policy_of(config))

    def _committed(self, *, moved: bool) -> None:
        """Wake waiting tasks if the high watermark has moved other than by a commit here."""
        if moved:
            assert self._log is not None
            super().notify()  # readers only: a commit changes nothing for a follower that has all records
            self._committed_waits.reach(self._log.high_watermark)

    def retire(self) -> None:
        """Mark the log as deleted: refuse new calls and wake the watchers; `close` follows."""
        self.state = ReplicaState.DELETED
        self.notify()

    def withdraw(self, error: ErrorCode) -> None:
        """Do `retire`, and fail the waits for other replicas with `error`: no more is replicated of this log."""
        self._withdrawn = error
        self.retire()
        self._fail_waits(PartitionUnavailable(error, self.key))

    def _fail_waits(self, error: PartitionUnavailable) -> None:
        """Fail the waits for what the leader of the partition decides."""
        self._committed_waits.fail(error)
        if self._deleted_waits is not None:
            self._deleted_waits.fail(error)

    def notify(self) -> None:
        """Wake all watchers, followers' fetches included."""
        super().notify()
        if self._tail is not None:
            self._tail.notify()

    async def close(self) -> bool:
        """Stop serving: refuse new calls, finish commits, wait for leases, close the store's log.

        Returns False if the store could not close it: then what was written without a flush may be lost.
        """
        async with self._opening:
            self.retire()
            if self._queue is not None:
                await self._queue.drained()
            while self.leases:
                await self._no_leases.wait()
            if self._part is not None:
                try:
                    await self._env.run_blocking(self._part.close)
                except StoreError as error:
                    log.warning("closing failed partition=%s cause=%s", self.key, error)
                    return False
        return True

    def _durable(self, end_offset: int) -> None:
        assert self._role is not None
        if self._recovery.writing.is_failing:
            self._recovery.succeeded(self._recovery.writing, end_offset)
            self._resources.unwritable_ms.pop(self.key, None)
        moved = self._role.durable(end_offset)
        if moved and self.watchers:
            super().notify()
        if self._tail is not None:
            self._tail.notify()
        if self._durable_waits.waiting:
            self._durable_waits.reach(end_offset)
        if moved:
            self._committed_waits.reach(self._role.state.high_watermark)

    def _failed(self, error: StoreError) -> None:
        self._recovery.failed(self._recovery.writing, "commit failed", error, trace=isinstance(error, UnexpectedError))
        self._note_unwritable()
        if self.state in (ReplicaState.OPEN, ReplicaState.REWRITING):
            self.state = ReplicaState.FAILED  # the next call that needs it reopens it
        self._durable_waits.fail(error)
        self._committed_waits.fail(error)

    def _note_unwritable(self) -> None:
        now_ms = self._env.monotonic_ms()
        first_ms, _ = self._resources.unwritable_ms.get(self.key, (now_ms, now_ms))
        self._resources.unwritable_ms[self.key] = first_ms, now_ms

    def _note_unopened(self) -> None:
        if self.key in self._resources.unwritable_ms:
            self._note_unwritable()


def _close_quietly(part: PartitionStore) -> None:
    """Close a failed log and ignore errors; reopening it reports them."""
    with suppress(StoreError):
        part.close()
