"""The events of a simulation, in order, and their digest: the same seed must always give the same digest."""

import hashlib
from collections import deque
from typing import Final, NamedTuple

KEPT_EVENTS: Final = 400
"""The number of newest events that are kept for display; the digest covers all."""


class Event(NamedTuple):
    """One event: its virtual time in microseconds, its host, and its description."""

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
        """Add an event at the virtual time `time_s`."""
        event = Event(round(time_s * 1e6), host, what)
        self._hash.update(f"{event.time_us}\x00{host}\x00{what}\n".encode())
        self._kept.append(event)
        self.count += 1

    @property
    def digest(self) -> str:
        """The digest of all events up to now, in hexadecimal."""
        return self._hash.hexdigest()

    def newest(self, count: int = KEPT_EVENTS) -> list[Event]:
        """The newest events, oldest first."""
        return list(self._kept)[-count:]
