"""Limits the rate of new connections: `max.connection.creation.rate`, over all listeners together (KIP-612).

A token bucket: it holds at most one second's connections, and each takes one.
"""

import math


class ConnectionRate:
    """The bucket of one broker. The rate may change from call to call; times are monotonic, in milliseconds."""

    def __init__(self, now_ms: int) -> None:
        self._filled_ms = now_ms
        self._tokens = math.inf  # full: the first call lowers it to one second's connections

    def wait_ms(self, per_second: int, now_ms: int) -> float:
        """Admit a connection and return 0, or return the time after which the caller may try again."""
        self._tokens = min(self._tokens + (now_ms - self._filled_ms) * per_second / 1000, per_second)
        self._filled_ms = now_ms
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        return (1 - self._tokens) * 1000 / per_second if per_second else math.inf
