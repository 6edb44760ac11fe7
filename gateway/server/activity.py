"""When bytes last moved on a connection: what its time-outs are measured by.

Times are of the environment's monotonic clock. What moved is noticed when a time-out is asked for, so that moving it
costs nothing: a time-out may be found late by the interval of these calls.
"""

from typing import Protocol


class Sending(Protocol):
    """What counts the bytes that the network has taken."""

    @property
    def sent_bytes(self) -> int:
        """How many so far."""
        ...


class Activity:
    """One connection's last movement, and the reply that the peer has to take now, if there is one.

    `received_count` is raised by the caller when bytes have come, and `last_ms` set when it does not let them come.
    """

    __slots__ = ("_seen", "_sending", "_stalled_at_bytes", "_stalled_since_ms", "last_ms", "received_count")

    def __init__(self, sending: Sending, now_ms: int) -> None:
        self._sending = sending
        self.received_count = 0
        self._seen = 0, sending.sent_bytes
        self.last_ms = now_ms
        self._stalled_since_ms: int | None = None
        self._stalled_at_bytes = 0

    def send_began(self, now_ms: int) -> None:
        """The peer has to take bytes before the broker can go on."""
        self._stalled_since_ms = now_ms
        self._stalled_at_bytes = self._sending.sent_bytes

    def send_ended(self) -> None:
        """It has taken them."""
        self._stalled_since_ms = None

    def idle_ms(self, now_ms: int) -> int:
        """How long nothing has come or gone."""
        moved = self.received_count, self._sending.sent_bytes
        if moved != self._seen:
            self._seen = moved
            self.last_ms = now_ms
        return now_ms - self.last_ms

    def stalled_ms(self, now_ms: int) -> int:
        """How long the peer has taken nothing of the reply that is being sent; 0 when none is."""
        if self._stalled_since_ms is None:
            return 0
        sent_bytes = self._sending.sent_bytes
        if sent_bytes != self._stalled_at_bytes:
            self._stalled_at_bytes = sent_bytes
            self._stalled_since_ms = now_ms
        return now_ms - self._stalled_since_ms
