"""Histograms of durations, cheap enough to update for each request and each commit."""

import math
from bisect import bisect_left
from typing import Final

UPPER_US: Final = (
    *(50, 100, 200, 300, 500, 750),
    *(1_000, 1_500, 2_000, 3_000, 5_000, 7_500),
    *(10_000, 15_000, 20_000, 30_000, 50_000, 75_000),
    *(100_000, 200_000, 500_000, 510_000),
    *(1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000),
)
"""The upper bounds of the ranges in microseconds; one more range counts longer durations.

Fetches that find nothing take slightly more than 500 ms, the default wait of consumers and followers: without a narrow
range for them, their quantiles would be far too long.
"""
RECENT_US: Final = 30_000_000
RECENT_AT_MOST: Final = 10_000
"""The length of a window of `RecentTimes`, and the number of durations that a window keeps."""


class Durations:
    """The number of durations in each range, and their sum. Written by one thread; any thread may read it."""

    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(UPPER_US) + 1)
        self.total_us = 0

    def add(self, took_us: int) -> None:
        """Count one duration."""
        self.counts[bisect_left(UPPER_US, took_us)] += 1
        self.total_us += took_us


def quantile(counts: list[int], fraction: float) -> float:
    """The duration in microseconds that `fraction` of the durations did not exceed; 0 if there are none.

    It is interpolated as if durations were spread evenly within a range. A longer duration than the last bound counts
    as that bound.
    """
    wanted = fraction * sum(counts)
    if not wanted:
        return 0.0
    below = 0
    for index, count in enumerate(counts):
        if below + count >= wanted:
            low = UPPER_US[index - 1] if index else 0
            high = UPPER_US[min(index, len(UPPER_US) - 1)]
            return low + (high - low) * (wanted - below) / count
        below += count
    return float(UPPER_US[-1])


class RecentTimes:
    """Durations of the last 30 to 60 seconds, for averages and maxima as in Kafka's metrics.

    Written by one thread; any thread may read it.
    """

    __slots__ = ("_older", "_present", "_since_us")

    def __init__(self) -> None:
        self._since_us = 0
        self._present: list[int] = []
        self._older: list[int] = []

    def add(self, took_us: int, now_us: int) -> None:
        """Add a duration that ended now. In each 30 seconds only the first `RECENT_AT_MOST` are kept."""
        self._turn(now_us)
        if len(self._present) < RECENT_AT_MOST:
            self._present.append(took_us)

    def _turn(self, now_us: int) -> None:
        if now_us - self._since_us >= RECENT_US:
            self._older = self._present if now_us - self._since_us < 2 * RECENT_US else []
            self._present, self._since_us = [], now_us

    def average_and_longest_ms(self, now_us: int) -> tuple[float, float]:
        """The average and the maximum in milliseconds; both are NaN while there are no durations, as in Kafka."""
        age_us = now_us - self._since_us
        recent = [*(self._older if age_us < RECENT_US else ()), *(self._present if age_us < 2 * RECENT_US else ())]
        if not recent:
            return math.nan, math.nan
        return sum(recent) / len(recent) / 1000, max(recent) / 1000
