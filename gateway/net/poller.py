"""Polls many connections for input, from one task.

With a task for each connection, Trio needs a system call and several objects for each small request, and as much memory
as the rest of an idle connection. Here each connection is registered with a poller once.

`EpollPoller` is the form for Linux, `TaskPoller` the one for other systems, which has those costs. The simulation's
in-memory network has its own poller. All pass the same tests (`tests/gateway/test_network.py`).
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from odradek.gateway.net.transport import Transport

T = TypeVar("T")


class Poller(Protocol[T]):
    """Reports which of its transports have input. One task at a time waits."""

    def register(self, transport: Transport, key: T) -> None:
        """Report `key` whenever input arrives for `transport`, including input that arrived before. Raises OSError."""
        ...

    def unregister(self, transport: Transport) -> None:
        """Stop reporting the transport. Idempotent; also after the transport was closed."""
        ...

    async def wait(self) -> Sequence[T]:
        """Wait for input, and return the keys of transports that have any, as `ready` does; always a checkpoint.

        The result may be empty. A cancelled call loses no report.
        """
        ...

    def ready(self) -> Sequence[T]:
        """The keys of transports that have received bytes, or the end of the stream, since they were last reported.

        `receive_now` reads the input. An arrival is reported once, whether or not it is then read. What arrives while
        earlier input is unread may be not reported: `may_have_more` of the transport is true already.
        """
        ...

    def close(self) -> None:
        """Unregister all transports. Idempotent."""
        ...
