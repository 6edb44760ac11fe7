"""How long things took, counted into ranges: cheap enough for each request and each commit."""

from bisect import bisect_left
from typing import Final

UPPER_US: Final = (
    *(50, 100, 200, 300, 500, 750),
    *(1_000, 1_500, 2_000, 3_000, 5_000, 7_500),
    *(10_000, 15_000, 20_000, 30_000, 50_000, 75_000),
    *(100_000, 200_000, 500_000),
    *(1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000),
)
"""The upper ends of the ranges in microseconds; one more range has what took longer."""


class Durations:
    """How many durations fell into each range, and their sum. Written by one thread; any thread may read it."""

    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(UPPER_US) + 1)
        self.total_us = 0

    def add(self, took_us: int) -> None:
        """Count one."""
        self.counts[bisect_left(UPPER_US, took_us)] += 1
        self.total_us += took_us


def quantile(counts: list[int], fraction: float) -> float:
    """The microseconds that `fraction` of the durations did not exceed, as exactly as the ranges tell; 0 for none.

    Within a range they are taken to be spread evenly; what is beyond the last one counts as its end.
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
