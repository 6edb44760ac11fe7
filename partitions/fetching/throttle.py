"""Throttles of replication (KIP-73): a reassignment must not take the bandwidth that clients need.

A broker has two quotas in bytes a second, one for what it gives to followers (`leader.replication.throttled.rate`) and
one for what it fetches as a follower (`follower.replication.throttled.rate`). They count the partitions that
`leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` of the topic name, and hold back
those of them alone that are not in sync: a throttle never takes a replica out of the ISR. Nothing is cut into pieces.
While the rate is exceeded, a leader gives no records to such a follower, and a follower does not fetch; so over time
the rate is kept, and passed by one fetch at most.

The rate is that of the last `replication.quota.window.num` windows of `replication.quota.window.size.seconds`, the
present one included. It is over one window at least, and over the time since the first of them while there are fewer.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

UNLIMITED: Final = 2**63 - 1
EVERY_REPLICA: Final = "*"


def is_throttled(replicas: Collection[str], index: int, broker_id: int) -> bool:
    """Whether a topic's `….replication.throttled.replicas` names the replica of a partition on a broker."""
    return bool(replicas) and (EVERY_REPLICA in replicas or f"{index}:{broker_id}" in replicas)


class _Window:
    __slots__ = ("size_bytes", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.size_bytes = 0


class ReplicationQuota:
    """How many bytes a second one side of a broker's replication may have; `bound` may be set at any time."""

    def __init__(self, windows: int = 11, window_ms: int = 1000) -> None:
        self.bound: int = UNLIMITED
        self._window_ms = window_ms
        self._span_ms = windows * window_ms
        self._windows: deque[_Window] = deque(maxlen=windows)

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count what a throttled partition was given, whether or not the rate is exceeded."""
        if not self._windows or now_ms - self._windows[-1].start_ms >= self._window_ms:
            self._windows.append(_Window(now_ms))
        self._windows[-1].size_bytes += size_bytes

    def rate(self, now_ms: int) -> float:
        """Bytes a second."""
        while self._windows and now_ms - self._windows[0].start_ms >= self._span_ms:
            self._windows.popleft()
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0].start_ms, self._window_ms)
        return sum([window.size_bytes for window in self._windows]) * 1000 / elapsed_ms

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether those that are not in sync have to wait."""
        return self.bound < UNLIMITED and self.rate(now_ms) > self.bound
