"""When the background looks after logs: after a while, or at once when something changed that matters to it."""

import math

import trio


class Alarm:
    """A pause of one task that can be cut short."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        """End the pause; if there is none now, the next one ends at once."""
        self._rung.set()

    async def pause(self, duration_ms: float = math.inf) -> None:
        """Return after `duration_ms`, or when it rings."""
        with trio.move_on_after(duration_ms / 1000):
            await self._rung.wait()
        self._rung = trio.Event()
