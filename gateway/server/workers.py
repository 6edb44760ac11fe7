"""The tasks that serve connections: few, independently of the number of connections.

Theory of operation
-------------------
An idle connection has no task. One task *leads*: it waits for input on all connections and serves those that have any,
one after the other, each for one receive. Most requests are answered without waiting, so one task answers them for many
connections in one turn of the scheduler, and an idle connection costs only its memory.

If serving a connection has to wait (for a disk, for another client, for a peer that receives its reply slowly), the
task stays with that connection until it has served all of its input, and another task becomes the leader: an idle one,
or a new one. So there is one task for each connection that waits for something, and one more, besides at most
`SPARE_WORKERS` idle ones. This is the leader/followers pattern (Schmidt, POSA 2).

Connections are served in the order in which their input was reported. One that may have more to receive goes to the end
of the queue. After every `SERVED_IN_A_ROW` connections other tasks are scheduled. When all are served, the leader polls
once more for input that arrived meanwhile, which saves a turn of the scheduler. It polls only once: with many busy
clients, repeated polling finds one connection at a time, while a turn of the scheduler finds several.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

import trio

from odradek.gateway.env.signals import Signal, Ticker
from odradek.gateway.net.poller import Poller
from odradek.gateway.net.transport import Transport
from odradek.gateway.server.first_wait import resumed

SERVED_IN_A_ROW: Final = 64
"""The number of connections the leader serves before other tasks are scheduled; some milliseconds of small requests."""
SPARE_WORKERS: Final = 64
"""The maximum number of idle tasks; making a new task costs more than most requests."""


class Worker:
    """One task that serves connections. `scope` is cancelled to end its current wait."""

    __slots__ = ("is_leader", "promoted", "scope")

    def __init__(self) -> None:
        self.is_leader = True
        self.promoted = Signal()
        self.scope = trio.CancelScope()

    def interrupt(self) -> None:
        """Cancel the worker's current wait for its connection. The leader never waits for a connection."""
        if not self.is_leader:
            self.scope.cancel()


class Connection(Protocol):
    """A connection that workers serve."""

    def serve(self, worker: Worker) -> Coroutine[Any, Any, bool]:
        """Receive once and handle the input; True if there may be more.

        Raises only when it is cancelled; `worker` is the task that it runs in.
        """
        ...

    def begins_to_wait(self) -> None:
        """Called when `serve` waits for the first time, before anything else runs. Must not raise."""
        ...


class Workers:
    """Serves the connections that are watched, while `run` is running.

    Calls that requests schedule with `ticker`, mainly commits, are made at the end of each row of connections.
    """

    def __init__(self, poller: Poller[Connection], ticker: Ticker) -> None:
        self._poller = poller
        self._ticker = ticker
        self._ready: deque[Connection] = deque()
        self._queued = 0  # the number of connections ever added to `_ready`
        self._taken = 0  # the number of connections ever taken from it
        self._spare: list[Worker] = []
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Serve until cancelled. Connections are not closed then."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._work, Worker())
        finally:
            self._poller.close()

    def watch(self, connection: Connection, transport: Transport) -> None:
        """Serve `connection` whenever its transport has input. Raises OSError."""
        self._poller.register(transport, connection)

    def unwatch(self, transport: Transport) -> None:
        """Stop serving the transport's connection. Idempotent; before or after the transport is closed."""
        self._poller.unregister(transport)

    def start_soon(self, call: Callable[..., Awaitable[Any]], *arguments: object) -> None:
        """Run `call` in a new task. It must not raise."""
        assert self._nursery is not None
        self._nursery.start_soon(call, *arguments)

    async def catch_up(self) -> None:
        """Wait until every connection that is now known to have input has been served once."""
        queued = self._queued
        while self._taken < queued:
            await trio.lowlevel.checkpoint()

    async def _work(self, worker: Worker) -> None:
        is_needed = True
        while is_needed:
            # a new scope only after a cancellation: making one costs a large part of a Fetch
            with trio.CancelScope() as worker.scope:
                is_needed = await self._work_in_scope(worker)

    async def _work_in_scope(self, worker: Worker) -> bool:
        """Lead whenever promoted; False if there are enough idle workers, True if the scope was cancelled."""
        while True:
            while worker.is_leader:
                await self._lead(worker)
            if worker.scope.cancel_called:  # the wait that was to be cancelled has already ended
                return True
            if not await self._is_promoted(worker):
                return False

    async def _lead(self, worker: Worker) -> None:
        """Serve a row of connections that have input, then those whose input arrived meanwhile."""
        if self._ready:
            await trio.lowlevel.checkpoint()
            arrived = self._poller.ready()
        else:
            arrived = await self._poller.wait()
        self._add(arrived)
        if await self._serve_row(worker) and not self._ready:
            arrived = self._poller.ready()  # these need no turn of the scheduler
            if arrived:
                self._add(arrived)
                await self._serve_row(worker)

    def _add(self, connections: Sequence[Connection]) -> None:
        self._ready.extend(connections)
        self._queued += len(connections)

    async def _serve_row(self, worker: Worker) -> bool:
        """Serve a row of connections that have input; False if another task became the leader."""
        ready = self._ready
        ticker = self._ticker
        ticker.is_gathering = True
        for _ in range(min(len(ready), SERVED_IN_A_ROW)):
            connection = ready.popleft()
            self._taken += 1
            serving = connection.serve(worker)
            try:
                trap = serving.send(None)
            except StopIteration as served:
                has_more = served.value
            else:
                self._resign(worker, connection)
                has_more = await resumed(serving, trap)
                await self._catch_up_with(worker, connection, has_more=has_more)
                return False
            if has_more:
                ready.append(connection)
                self._queued += 1
        ticker.make_gathered()
        return True

    @staticmethod
    async def _catch_up_with(worker: Worker, connection: Connection, *, has_more: bool) -> None:
        """Serve one connection until it has no more input."""
        while has_more:
            await trio.lowlevel.checkpoint()
            has_more = await connection.serve(worker)

    def _resign(self, worker: Worker, connection: Connection) -> None:
        """Make another task the leader, since this one has to wait for its connection."""
        worker.is_leader = False
        self._ticker.leave_gathered()
        connection.begins_to_wait()
        if self._spare:
            follower = self._spare.pop()
            follower.is_leader = True
            follower.promoted.wake()
        else:
            self.start_soon(self._work, Worker())

    async def _is_promoted(self, worker: Worker) -> bool:
        """Wait to become the leader; False if there are enough idle workers, so that this one should end."""
        if len(self._spare) >= SPARE_WORKERS:
            return False
        self._spare.append(worker)
        await worker.promoted.wait()
        return True
