"""What happened in a simulation, in order, and a digest of it: the same seed must give the same digest every time."""

import hashlib
from collections import deque
from typing import Final, NamedTuple

KEPT_EVENTS: Final = 400
"""How many of the newest events are kept to be shown; the digest covers all."""


class Event(NamedTuple):
    """One event: microseconds of virtual time, the host it happened on, and what it was."""

    time_us: int
    host: str
    what: str

    def __str__(self) -> str:
        return f"{self.time_us / 1e6:12.6f} {self.host:<12} {self.what}"


class Trace:
    """The events of one run."""

    def __init__(self, kept: int = KEPT_EVENTS) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._kept: deque[Event] = deque(maxlen=kept)
        self.count = 0

    def record(self, time_s: float, host: str, what: str) -> None:
        """Add an event that happens now."""
        event = Event(round(time_s * 1e6), host, what)
        self._hash.update(f"{event.time_us}\x00{host}\x00{what}\n".encode())
        self._kept.append(event)
        self.count += 1

    @property
    def digest(self) -> str:
        """The digest of everything up to now, in hexadecimal."""
        return self._hash.hexdigest()

    def newest(self, count: int = KEPT_EVENTS) -> list[Event]:
        """The newest events, oldest first."""
        return list(self._kept)[-count:]
