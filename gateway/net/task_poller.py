"""The poller of systems other than Linux: a task for each connection waits as Trio does on that system.

It serves macOS too, where a poller over kqueue would save one system call for each report. It is the form that is
tested on Linux; one over kqueue could not be run where this project is developed.

Trio reports input for as long as there is some, so a task waits again only when the input that it has reported was
read: the transport says so (`ReportingTransport`).
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

import trio

from odradek.gateway.net.transport import ReportingTransport, Transport

T = TypeVar("T")


class _Watch(Generic[T]):
    """One registered connection. `scope` ends its task; `emptied` is set when the reported input was read."""

    __slots__ = ("emptied", "key", "scope")

    def __init__(self, key: T) -> None:
        self.key = key
        self.scope = trio.CancelScope()
        self.emptied = trio.Event()

    def set_emptied(self) -> None:
        self.emptied.set()


class TaskPoller(Generic[T]):
    """See `odradek.gateway.net.poller.Poller`."""

    def __init__(self) -> None:
        self._watches: dict[ReportingTransport, _Watch[T]] = {}
        self._arrived: list[T] = []
        self._news = trio.Event()

    def register(self, transport: Transport, key: T) -> None:
        """See `Poller.register`."""
        assert isinstance(transport, ReportingTransport)
        watch = self._watches[transport] = _Watch(key)
        transport.on_emptied = watch.set_emptied
        trio.lowlevel.spawn_system_task(self._watch, transport, watch)

    def unregister(self, transport: Transport) -> None:
        """See `Poller.unregister`."""
        assert isinstance(transport, ReportingTransport)
        watch = self._watches.pop(transport, None)
        if watch is not None:
            watch.scope.cancel()

    async def _watch(self, transport: ReportingTransport, watch: _Watch[T]) -> None:
        """Report the transport's input until it is unregistered or closed. It must not raise."""
        with watch.scope:
            while not transport.is_closed:
                try:
                    await trio.lowlevel.wait_readable(transport.number)
                except trio.ClosedResourceError:
                    return
                except OSError:  # this socket cannot be waited for: reading it tells why
                    watch.scope.cancel()
                watch.emptied = trio.Event()
                transport.may_have_more = True
                self._arrived.append(watch.key)
                self._news.set()
                await watch.emptied.wait()

    async def wait(self) -> Sequence[T]:
        """See `Poller.wait`."""
        if self._arrived:
            await trio.lowlevel.checkpoint()
        else:
            await self._news.wait()
        return self.ready()

    def ready(self) -> Sequence[T]:
        """The keys of what Trio has reported since the last call."""
        keys, self._arrived = self._arrived, []
        if keys:
            self._news = trio.Event()
        return keys

    def close(self) -> None:
        """See `Poller.close`."""
        for watch in self._watches.values():
            watch.scope.cancel()
        self._watches.clear()
