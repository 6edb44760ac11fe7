"""Replication throttling (KIP-73): a reassignment must not take the bandwidth that clients need.

A broker has two quotas in bytes per second: one for what it sends to followers (`leader.replication.throttled.rate`),
one for what it fetches as a follower (`follower.replication.throttled.rate`). They count the partitions listed in the
topic's `leader.replication.throttled.replicas` and `follower.replication.throttled.replicas`, and delay only replicas
that are not in sync, so a throttle never removes a replica from the ISR. Fetches are not split: while the rate is
exceeded, a leader returns no records to such a follower, and a follower does not fetch. On average the rate is kept; it
is exceeded by one fetch at most.

The rate is computed over the last `replication.quota.window.num` windows of `replication.quota.window.size.seconds`,
including the current one; with fewer windows, over the time since the start of the first one, but at least one window.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

UNLIMITED: Final = 2**63 - 1
EVERY_REPLICA: Final = "*"


def is_throttled(replicas: Collection[str], index: int, broker_id: int) -> bool:
    """Returns True if a topic's `….replication.throttled.replicas` lists a partition's replica on this broker."""
    return bool(replicas) and (EVERY_REPLICA in replicas or f"{index}:{broker_id}" in replicas)


class _Window:
    __slots__ = ("size_bytes", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.size_bytes = 0


class ReplicationQuota:
    """The bytes per second of one side of a broker's replication; `bound`, the limit, may be changed at any time."""

    def __init__(self, windows: int = 11, window_ms: int = 1000) -> None:
        self.bound: int = UNLIMITED
        self._window_ms = window_ms
        self._span_ms = windows * window_ms
        self._windows: deque[_Window] = deque(maxlen=windows)

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count the bytes of a throttled partition, whether or not the rate is exceeded."""
        if not self._windows or now_ms - self._windows[-1].start_ms >= self._window_ms:
            self._windows.append(_Window(now_ms))
        self._windows[-1].size_bytes += size_bytes

    def rate(self, now_ms: int) -> float:
        """Returns the bytes per second."""
        while self._windows and now_ms - self._windows[0].start_ms >= self._span_ms:
            self._windows.popleft()
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0].start_ms, self._window_ms)
        return sum([window.size_bytes for window in self._windows]) * 1000 / elapsed_ms

    def is_exceeded(self, now_ms: int) -> bool:
        """Returns True if replicas that are not in sync must be delayed."""
        return self.bound < UNLIMITED and self.rate(now_ms) > self.bound
