"""Counts the open connections that share one `max.connections`, in total and per address.

As in Kafka, the listeners for clients and brokers share one, and those for controllers another: a controller that has
both roles accepts the other controllers also when its clients have reached the limit. With several listeners, the one
between brokers is protected: its connections never wait, neither for the limit nor for the rate, and each beyond the
limit closes another listener's, the one that was idle longest (KIP-402, KIP-612).
"""

from collections import Counter
from typing import TYPE_CHECKING

from odradek.gateway.server.connection_rate import ConnectionRate

if TYPE_CHECKING:
    from odradek.gateway.server.driver import ConnectionDriver


class ConnectionQuota:
    """The open connections of some listeners, in the order of their arrival, and the rate of new ones.

    `protected` is the name of the listener whose connections never wait, if there is one.
    """

    def __init__(self, protected: str | None, now_ms: int) -> None:
        self._protected = protected
        self._rate = ConnectionRate(now_ms)
        self.open: dict[ConnectionDriver, None] = {}
        self._per_host: Counter[str] = Counter()

    def has_room(self, listener: str, max_connections: int) -> bool:
        """True if the listener may accept one more connection now."""
        return listener == self._protected or len(self.open) < max_connections

    def wait_ms(self, listener: str, per_second: int, now_ms: int) -> float:
        """Admit a connection and return 0, or return the time after which the caller may try again."""
        return 0 if listener == self._protected else self._rate.wait_ms(per_second, now_ms)

    def from_host(self, host: str) -> int:
        """The number of open connections of an address."""
        return self._per_host[host]

    def add(self, connection: "ConnectionDriver") -> None:
        """Count a connection."""
        self.open[connection] = None
        self._per_host[connection.peer_host] += 1

    def remove(self, connection: "ConnectionDriver") -> None:
        """Stop counting a connection that has ended."""
        del self.open[connection]
        self._per_host[connection.peer_host] -= 1
        if not self._per_host[connection.peer_host]:
            del self._per_host[connection.peer_host]

    def excess(self, max_connections: int, now_ms: int) -> "list[ConnectionDriver]":
        """The connections to close, so that no more than the limit are open: those that were idle longest.

        There are some after a connection of the protected listener, or when the limit was lowered. Idle times are as
        exact as the interval of the checks for stale connections; among equals the oldest is closed.
        """
        if len(self.open) <= max_connections:
            return []
        left = [each for each in self.open if not each.is_closed]
        count = max(len(left) - max_connections, 0)
        others = [each for each in left if each.listener != self._protected]
        return sorted(others, key=lambda each: -each.idle_ms(now_ms))[:count]
