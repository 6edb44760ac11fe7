"""The interface to time, randomness, network and storage: production uses the real ones, the simulation its own.

A broker gets its clocks, random numbers, sockets, threads and stores here, so a whole cluster runs in one process under
virtual time with seeded faults, and no code depends on which environment it has. Sleeping and waiting go through Trio,
whose clock the simulation replaces. `.importlinter` lists the modules that import `time`, `random`, `socket`, `select`
or `threading` themselves, with the reason: parts of the environment, locks of stores, commands, and helpers of tests.
"""

import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeVar

import outcome
import trio

from odradek.facilities import has
from odradek.gateway.env.loop_watch import LoopClocks, LoopRecord, LoopWatch
from odradek.gateway.env.worker_pool import BlockingPool
from odradek.gateway.net.poller import Poller
from odradek.gateway.net.transport import Listener, Transport, dial_tcp, listen_tcp
from odradek.partitions.truncation import ProducerRebuild
from odradek.storage_backends.interface import Store
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.options import StoreOptions

if sys.platform == "linux" and has("epoll"):
    from odradek.gateway.net.epoll_poller import EpollPoller as _SocketPoller
else:
    from odradek.gateway.net.task_poller import TaskPoller as _SocketPoller

T = TypeVar("T")


class Environment(Protocol):
    """The operations of the machine that a broker may use."""

    @property
    def random(self) -> random.Random:
        """The only source of randomness."""
        ...

    def uuid(self) -> uuid.UUID:
        """A new random (version 4) UUID."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds on a clock that never goes back; for time-outs and deadlines."""
        ...

    def monotonic_us(self) -> int:
        """Microseconds on the same clock; for measuring durations."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; for timestamps that users see."""
        ...

    def host_name(self) -> str:
        """The name of the machine, which is advertised to clients if no host is configured."""
        ...

    async def run_blocking(self, call: Callable[[], T]) -> T:
        """Run a call that may block (store commits, cold reads) without holding up the Trio thread.

        Cancellation: once started, the call is always awaited, because its effect on a store cannot be undone.
        """
        ...

    def start_blocking(
        self, nursery: trio.Nursery, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]
    ) -> None:
        """Begin a call that may block, and call `deliver` with its outcome on the Trio thread unless the run has ended.

        `nursery` is for environments that need a task for it. `deliver` must not raise.
        """
        ...

    async def listen(self, host: str, port: int) -> Sequence[Listener]:
        """Bind and listen; port 0 picks a free one. Raises OSError."""
        ...

    async def dial(self, host: str, port: int) -> Transport:
        """Connect. Raises OSError."""
        ...

    def poller(self) -> Poller[Any]:
        """A poller for transports that this environment's listeners accept. The caller closes it."""
        ...

    def open_store(self, url: str) -> Store:
        """Open the store that `url` names. Raises StoreError. Blocks."""
        ...

    def watch_loop(self, limit_ms: int) -> AbstractContextManager[LoopRecord]:
        """Count, and log, the turns of this Trio loop that take `limit_ms` or longer, until the block ends.

        Enter and leave it in the Trio thread. Under virtual time nothing is counted.
        """
        ...


class ProductionEnvironment:
    """The real machine: operating-system clocks, TCP sockets, threads, and stores by URL.

    `threads` bounds how many blocking calls run at once: the file system merges concurrent syncs, so durable commits of
    many partitions gain from 8 to 16 (docs/architecture.md, "The commit path"). `max_open_files` is a limit
    of each store.
    """

    def __init__(self, *, threads: int = 16, max_open_files: int | None = None) -> None:
        self._max_open_files = max_open_files
        self.random = random.SystemRandom()
        self._pool = BlockingPool(threads)

    def uuid(self) -> uuid.UUID:
        """A random UUID from the operating system's entropy."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    def host_name(self) -> str:
        """See `Environment.host_name`."""
        return socket.gethostname()

    def monotonic_ms(self) -> int:
        """The system's monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        """The system's monotonic clock."""
        return time.monotonic_ns() // 1_000

    def wall_ms(self) -> int:
        """The system's clock in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    async def run_blocking(self, call: Callable[[], T]) -> T:
        """Run `call` in a worker thread."""
        return await self._pool.run(call)

    def start_blocking(
        self, nursery: trio.Nursery, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]
    ) -> None:
        """Run `call` in a worker thread.

        No task is woken for the result, which would be a large part of a small commit.
        """
        del nursery
        self._pool.start(call, deliver)

    async def listen(self, host: str, port: int) -> Sequence[Listener]:
        """Listen on TCP."""
        return await listen_tcp(host, port)

    async def dial(self, host: str, port: int) -> Transport:
        """Connect over TCP."""
        return await dial_tcp(host, port)

    def poller(self) -> Poller[Any]:
        """The poller of this system."""
        return _SocketPoller()

    def open_store(self, url: str) -> Store:
        """Open by URL scheme."""
        options = StoreOptions(max_open_files=self._max_open_files, producer_rebuilder=ProducerRebuild)
        return open_store(url, options)

    def watch_loop(self, limit_ms: int) -> AbstractContextManager[LoopRecord]:
        """Watch with the system's clocks and a thread."""
        return LoopWatch(limit_ms, LoopClocks(time.monotonic_ns, time.thread_time_ns, _cpu_clock_of)).watching()


if sys.platform == "linux" and has("thread_cpu_clock"):

    def _cpu_clock_of(thread: int) -> Callable[[], int]:
        """A function that returns the processor time of `thread`, for as long as the thread runs."""
        return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(thread))

else:

    def _cpu_clock_of(thread: int) -> Callable[[], int]:
        """A function that returns 0: this system lets no thread read another's clock, so `LoopWatch` counts a busy turn
        when it has ended.
        """
        del thread
        return lambda: 0
