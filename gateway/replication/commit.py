"""The commit path: every write that arrived for a log while its last commit ran goes into the next one.

One commit is in flight per log; logs commit concurrently in the environment's threads. A write is handed in
on the Trio thread and gets a `Completion`; all writes of one commit share it. It settles once the store has the commit
on disk, or fails with the store's error: nothing is ever acknowledged before.

    submit ──► pending ──(next scheduler tick, or when the commit in flight ends)──► in flight ──► settled

A failed commit fails every write behind it too, for their offsets rest on the failed ones. The queue then refuses
further writes until its owner has opened the log again and calls `reset`. An exception that nothing should raise, in
the store or in what is called when a commit is done, fails the log in the same way, and not the process.
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
"""Up to this much, a commit that waits for no disk is cheaper done at once than handed to a thread."""


class UnexpectedError(StoreError):
    """A commit, or what is called after it, raised what it must not raise: a defect, which the cause tells."""


class Backlog:
    """The bytes of all logs of a broker that wait for their commit; producers wait while they are too many."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._less = Condition()

    def add(self, size_bytes: int) -> None:
        """So much more waits."""
        self._bytes += size_bytes

    @property
    def size_bytes(self) -> int:
        """How many bytes it holds."""
        return self._bytes

    def remove(self, size_bytes: int) -> None:
        """So much is committed, or void."""
        self._bytes -= size_bytes
        if self._bytes < self._max_bytes:
            self._less.notify()

    @property
    def is_full(self) -> bool:
        """Whether producers are to wait for `room`."""
        return self._bytes >= self._max_bytes

    async def room(self) -> None:
        """Return at once while there is room, else when there is."""
        while self.is_full:
            await self._less.wait()


class _Group:
    """Writes that go into one commit; `end_offset` is where the log ends after them. Or an exclusive call instead."""

    __slots__ = ("durable", "end_offset", "exclusive_call", "size_bytes", "writes")

    def __init__(self, exclusive_call: Callable[[], None] | None = None) -> None:
        self.exclusive_call = exclusive_call
        self.writes: list[LogWrite] = []
        self.size_bytes = 0
        self.end_offset = 0
        self.durable: Completion[None] = Completion()


class CommitQueue:
    """The writes of one log on their way to the disk.

    `on_durable(end_offset)` is called on the Trio thread after each commit, before its completion settles, with the end
    offset that the last of its writes was submitted with; `on_failure(error)` after a failed one, or when another call
    has left the store's log `failed`, before the completions do.
    A commit takes writes until it has `max_bytes`, or those that the store wants without a sync; a larger single write
    is a commit of its own. Commits wait for the disk while the log is `synced`, which may change at any time. How long
    each takes is counted in `times`.
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
        self._pending: list[_Group] = []  # few, each of many writes; a deque has half a kilobyte
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
            self._be_busy()
        return group.durable

    def _be_busy(self) -> None:
        self._busy = True
        self._ticker.soon(self._begin)

    async def exclusively(self, call: Callable[[], T]) -> T:
        """Run `call`, which writes to the store in its own way, between commits, where blocking is allowed.

        Raises what it raises, and StoreError when an earlier commit fails. Its own failure fails the commits behind it
        only if the store's log is `failed` then.
        Cancellation: waited for all the same.
        """
        if self._failure is not None:
            raise self._failure
        results: list[outcome.Outcome[T]] = []
        group = _Group(lambda: results.append(outcome.capture(call)))
        self._pending.append(group)
        if not self._busy:
            self._be_busy()
        with trio.CancelScope(shield=True):
            try:
                await group.durable.wait()
            except StoreError:
                if not results:
                    raise
        return results[0].unwrap()

    async def drained(self) -> None:
        """Wait until nothing is pending or in flight."""
        while self._busy:
            await self._idle.wait()

    def reset(self, store: PartitionStore) -> None:
        """Accept writes again; the owner has opened the log anew, as `store`."""
        self._store = store
        self._failure = None

    def _begin(self) -> None:
        """Commit what is cheaper done at once; a thread gets the rest, and then all that arrived meanwhile."""
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
        """Whether the group is committed, or has failed, here and now; False for one that belongs into a thread."""
        if self.synced or group.exclusive_call is not None or group.size_bytes > INLINE_COMMIT_MAX_BYTES:
            return False
        try:
            is_done = self._store.commit_at_once(group.writes)
        except Exception as error:  # noqa: BLE001 - one log is in doubt, and the others serve on
            self._fail(group, error)
            return True
        if is_done:
            self._succeed(group)
        return is_done  # if not, the store would have to wait for the disk: it rolls, say

    def _finished(self, group: _Group, result: outcome.Outcome[object]) -> None:
        try:
            result.unwrap()
        except Exception as error:  # noqa: BLE001 - one log is in doubt, and the others serve on
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
                group.size_bytes = 0
                self._on_durable(group.end_offset)
            group.durable.settle(None)
        except Exception as error:  # noqa: BLE001 - what is in memory of this log is in doubt, and the others serve on
            self._fail(group, _unexpected(error))

    def _fail(self, failed: _Group, cause: Exception) -> None:
        error = cause if isinstance(cause, StoreError) else _unexpected(cause)
        self._failure = error
        void = [failed, *self._pending]
        self._pending.clear()
        self._backlog.remove(sum(group.size_bytes for group in void))
        _despite_errors(self._on_failure, error)
        for group in void:
            if not group.durable.settled:  # as that of a commit is whose callback has raised
                _despite_errors(group.durable.fail, error)


def _despite_errors(tell: Callable[[StoreError], None], error: StoreError) -> None:
    """Report a failure to one callback; an exception of it is logged, so that the other callbacks run."""
    try:
        tell(error)
    except Exception:
        log.exception("unexpected exception after a failed commit error=%s", error)


def _unexpected(cause: Exception) -> UnexpectedError:
    error = UnexpectedError(f"unexpected {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error
