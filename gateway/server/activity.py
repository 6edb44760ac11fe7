"""Records when a connection last sent or received bytes, for its time-outs.

Times are of the environment's monotonic clock. Progress is detected when a time-out is checked, so that sending and
receiving cost nothing; a time-out may be detected late by the interval of these checks.
"""

from typing import Protocol


class Sending(Protocol):
    """An object that counts the bytes that the network has accepted."""

    @property
    def sent_bytes(self) -> int:
        """The number so far."""
        ...


class Activity:
    """One connection's last activity, and the reply that the peer has to receive now, if there is one.

    The caller increments `received_count` when bytes have arrived, and sets `last_ms` while it does not read.
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
        """Note that a send waits for the peer to receive bytes."""
        self._stalled_since_ms = now_ms
        self._stalled_at_bytes = self._sending.sent_bytes

    def send_ended(self) -> None:
        """Note that the peer has received them."""
        self._stalled_since_ms = None

    def idle_ms(self, now_ms: int) -> int:
        """The time since bytes were last sent or received."""
        moved = self.received_count, self._sending.sent_bytes
        if moved != self._seen:
            self._seen = moved
            self.last_ms = now_ms
        return now_ms - self.last_ms

    def stalled_ms(self, now_ms: int) -> int:
        """The time in which the peer has received nothing of the reply that is being sent; 0 if none is."""
        if self._stalled_since_ms is None:
            return 0
        sent_bytes = self._sending.sent_bytes
        if sent_bytes != self._stalled_at_bytes:
            self._stalled_at_bytes = sent_bytes
            self._stalled_since_ms = now_ms
        return now_ms - self._stalled_since_ms
