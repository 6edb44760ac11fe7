"""An environment around another, which a test gives to its broker by `TestBroker.around`."""

import random
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import outcome
import trio

from odradek.gateway.env.environment import Environment
from odradek.gateway.env.loop_watch import LoopRecord
from odradek.gateway.net.poller import Poller
from odradek.gateway.net.transport import Listener, Transport
from odradek.storage_backends.interface import Store

T = TypeVar("T")


class WrappedEnvironment:
    """Does everything as `inner` does; a subclass changes a part. Each method is that of `Environment`."""

    def __init__(self, inner: Environment) -> None:
        self.inner = inner

    @property
    def random(self) -> random.Random:
        """See `Environment.random`."""
        return self.inner.random

    def uuid(self) -> uuid.UUID:
        """See `Environment.uuid`."""
        return self.inner.uuid()

    def monotonic_ms(self) -> int:
        """See `Environment.monotonic_ms`."""
        return self.inner.monotonic_ms()

    def monotonic_us(self) -> int:
        """See `Environment.monotonic_us`."""
        return self.inner.monotonic_us()

    def wall_ms(self) -> int:
        """See `Environment.wall_ms`."""
        return self.inner.wall_ms()

    def host_name(self) -> str:
        """See `Environment.host_name`."""
        return self.inner.host_name()

    async def run_blocking(self, call: Callable[[], T]) -> T:
        """See `Environment.run_blocking`."""
        return await self.inner.run_blocking(call)

    def start_blocking(
        self, nursery: trio.Nursery, call: Callable[[], T], deliver: Callable[[outcome.Outcome[T]], object]
    ) -> None:
        """See `Environment.start_blocking`."""
        self.inner.start_blocking(nursery, call, deliver)

    async def listen(self, host: str, port: int) -> Sequence[Listener]:
        """See `Environment.listen`."""
        return await self.inner.listen(host, port)

    async def dial(self, host: str, port: int) -> Transport:
        """See `Environment.dial`."""
        return await self.inner.dial(host, port)

    def poller(self) -> Poller[Any]:
        """See `Environment.poller`."""
        return self.inner.poller()

    def open_store(self, url: str) -> Store:
        """See `Environment.open_store`."""
        return self.inner.open_store(url)

    def watch_loop(self, limit_ms: int) -> AbstractContextManager[LoopRecord]:
        """See `Environment.watch_loop`."""
        return self.inner.watch_loop(limit_ms)
