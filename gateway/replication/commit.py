"""The commit path: every write that arrived for a log while its last commit ran goes into the next one.

One commit is in flight per log; logs commit concurrently in the environment's threads. A write is submitted on the Trio
thread and gets a `Completion`; all writes of one commit share it. It settles once the store has the commit, or fails
with the store's error: no write is acknowledged before. The commit is then on disk if the log is `synced`; otherwise it
survives a crash of the process, but not a power cut.

    submit ──► pending ──(next scheduler tick, or when the commit in flight ends)──► in flight ──► settled

A failed commit fails every later write too, since their offsets depend on the failed ones. The queue then refuses
further writes until its owner has opened the log again and calls `reset`. An unexpected exception, in the store or in a
callback after a commit, fails the log in the same way, and not the process.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import outcome
import trio

from odradek.gateway.env.completion import Completion
from odradek.gateway.env.durations import Durations
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Condition, Ticker
from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import PartitionStore, StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")

INLINE_COMMIT_MAX_BYTES = 64 * 1024
"""Up to this size, a commit that does not wait for a disk is cheaper done at once than in a thread."""


class UnexpectedError(StoreError):
    """A commit, or a callback after it, raised an unexpected exception: a defect, with the exception as its cause."""


class Backlog:
    """The bytes of all logs of a broker that wait for their commit; producers wait while they are too many.

    `on_change` is called with each change of their number.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._less = Condition()
        self.on_change: Callable[[int], None] = _ignore

    def add(self, size_bytes: int) -> None:
        """Count `size_bytes` more."""
        self._bytes += size_bytes
        self.on_change(size_bytes)

    @property
    def size_bytes(self) -> int:
        """The number of bytes that wait."""
        return self._bytes

    def remove(self, size_bytes: int) -> None:
        """Count `size_bytes` less: they are committed, or their commit has failed."""
        self._bytes -= size_bytes
        self.on_change(-size_bytes)
        if self._bytes < self._max_bytes:
            self._less.notify()

    @property
    def is_full(self) -> bool:
        """True if producers must wait for `room`."""
        return self._bytes >= self._max_bytes

    async def room(self) -> None:
        """Return when there is room."""
        while self.is_full:
            await self._less.wait()


def _ignore(_size_bytes: int) -> None:
    """The default of `Backlog.on_change`."""


class _Group:
    """Writes that go into one commit, with the log end offset after them; or an exclusive call instead."""

    __slots__ = ("durable", "end_offset", "exclusive_call", "size_bytes", "writes")

    def __init__(self, exclusive_call: Callable[[], None] | None = None) -> None:
        self.exclusive_call = exclusive_call
        self.writes: list[LogWrite] = []
        self.size_bytes = 0
        self.end_offset = 0
        self.durable: Completion[None] = Completion()


class CommitQueue:
    """The writes of one log that wait for their commit.

    `on_durable(end_offset)` is called on the Trio thread after each commit, before its completion settles, with the end
    offset of its last write. `on_failure(error)` is called after a failed commit, or when an exclusive call has left
    the store's log `failed`, before the completions fail.

    A commit takes writes until it has at least `max_bytes`, or the number of bytes that the store prefers without a
    sync; its last write may exceed that by any amount. Commits wait for the disk while the log is `synced`, which may
    change at any time. `times` counts the duration of each commit.
    """

    def __init__(
        self,
        store: PartitionStore,
        env: Environment,
        ticker: Ticker,
        backlog: Backlog,
        *,
        max_bytes: int,
        synced: bool,
        times: Durations,
        on_durable: Callable[[int], None],
        on_failure: Callable[[StoreError], None],
    ) -> None:
        self._store = store
        self._env = env
        self._ticker = ticker
        self._backlog = backlog
        self._max_bytes = max_bytes
        self._unsynced_max_bytes = min(max_bytes, store.unsynced_commit_bytes)
        self.synced = synced
        self._times = times
        self._began_us = 0
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._pending: list[_Group] = []  # few, each of many writes; a deque takes half a kilobyte
        self._busy = False
        self._idle = Condition()
        self._failure: StoreError | None = None

    def submit(self, write: LogWrite, end_offset: int) -> Completion[None]:
        """Queue `write`, after which the log ends at `end_offset`. Raises StoreError while the log is failed."""
        if self._failure is not None:
            raise self._failure
        max_bytes = self._max_bytes if self.synced else self._unsynced_max_bytes
        group = self._pending[-1] if self._pending else None
        if group is None or group.exclusive_call is not None or group.size_bytes >= max_bytes:
            group = _Group()
            self._pending.append(group)
        size_bytes = 0
        for batch in write.batches:
            size_bytes += len(batch.data)
        group.writes.append(write)
        group.size_bytes += size_bytes
        group.end_offset = end_offset
        self._backlog.add(size_bytes)
        if not self._busy:
            self._schedule()
        return group.durable

    def _schedule(self) -> None:
        self._busy = True
        self._ticker.soon(self._begin)

    async def exclusively(self, call: Callable[[], T]) -> T:
        """Run `call`, which writes to the store in its own way, in a thread between commits.

        Raises what it raises, and StoreError when an earlier commit fails. Its failure fails the later commits only if
        the store's log is then `failed`. Cancellation: the call is awaited anyway.
        """
        if self._failure is not None:
            raise self._failure
        results: list[outcome.Outcome[T]] = []
        group = _Group(lambda: results.append(outcome.capture(call)))
        self._pending.append(group)
        if not self._busy:
            self._schedule()
        with trio.CancelScope(shield=True):
            try:
                await group.durable.wait()
            except StoreError:
                if not results:
                    raise
        return results[0].unwrap()

    async def drained(self) -> None:
        """Wait until no commit is pending or in flight."""
        while self._busy:
            await self._idle.wait()

    def reset(self, store: PartitionStore) -> None:
        """Accept writes again; the owner has reopened the log as `store`."""
        self._store = store
        self._failure = None

    def _begin(self) -> None:
        """Commit groups at once while that is cheaper; start a thread for the first that needs one.

        `_finished` continues with the groups after that one.
        """
        while self._pending:
            group = self._pending.pop(0)
            self._began_us = self._env.monotonic_us()
            if not self._settled_at_once(group):
                call = group.exclusive_call or partial(self._store.commit, group.writes, sync=self.synced)
                self._env.start_blocking(self._ticker.nursery, call, partial(self._finished, group))
                return
        self._busy = False
        self._idle.notify()

    def _settled_at_once(self, group: _Group) -> bool:
        """Commit the group at once if that does not block; False for one that needs a thread."""
        if self.synced or group.exclusive_call is not None or group.size_bytes > INLINE_COMMIT_MAX_BYTES:
            return False
        try:
            is_done = self._store.commit_at_once(group.writes)
        except Exception as error:  # noqa: BLE001 - only this log is in doubt; the others continue to serve
            self._fail(group, error)
            return True
        if is_done:
            self._succeed(group)
        return is_done  # if not, the store would have to wait for the disk, for example to roll

    def _finished(self, group: _Group, result: outcome.Outcome[object]) -> None:
        try:
            result.unwrap()
        except Exception as error:  # noqa: BLE001 - only this log is in doubt; the others continue to serve
            self._fail(group, error)
        else:
            if group.exclusive_call is not None and self._store.failed:
                self._fail(group, StoreError("the log has to be opened again after a failed write"))
            else:
                self._succeed(group)
        self._begin()

    def _succeed(self, group: _Group) -> None:
        try:
            if group.exclusive_call is None:
                self._times.add(self._env.monotonic_us() - self._began_us)
                self._backlog.remove(group.size_bytes)
                group.size_bytes = 0  # `_fail` must not subtract it again if the callback raises
                self._on_durable(group.end_offset)
            group.durable.settle(None)
        except Exception as error:  # noqa: BLE001 - this log's state in memory is in doubt; the others serve
            self._fail(group, _unexpected(error))

    def _fail(self, failed: _Group, cause: Exception) -> None:
        error = cause if isinstance(cause, StoreError) else _unexpected(cause)
        self._failure = error
        void = [failed, *self._pending]
        self._pending.clear()
        self._backlog.remove(sum(group.size_bytes for group in void))
        _despite_errors(self._on_failure, error)
        for group in void:
            if not group.durable.settled:  # it is settled if its callback raised
                _despite_errors(group.durable.fail, error)


def _despite_errors(call: Callable[[StoreError], None], error: StoreError) -> None:
    """Call one failure callback; an exception of it is logged, so that the other callbacks run."""
    try:
        call(error)
    except Exception:
        log.exception("unexpected exception after a failed commit error=%s", error)


def _unexpected(cause: Exception) -> UnexpectedError:
    error = UnexpectedError(f"unexpected {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error
