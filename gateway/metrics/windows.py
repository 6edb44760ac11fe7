"""Quantiles of the last minute, computed from cumulative counts, of which a few earlier states are kept."""

from collections import deque
from collections.abc import Hashable
from typing import Final

from odradek.gateway.env.durations import Durations, quantile

WINDOW_S: Final = 60.0
KEPT_EVERY_S: Final = 5.0

QUANTILES: Final = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
"""The quantiles of Kafka's histograms."""


class Windows:
    """The durations of the last minute by key; the window begins at an earlier scrape. For one thread."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, deque[tuple[float, list[int]]]] = {}

    def quantiles_ms(self, key: Hashable, durations: Durations, now_s: float) -> dict[str, float]:
        """Each of `QUANTILES` in milliseconds; the first scrape covers all durations since the start."""
        counts = list(durations.counts)
        kept = self._kept.setdefault(key, deque())
        while len(kept) > 1 and kept[1][0] <= now_s - WINDOW_S:
            kept.popleft()
        before = kept[0][1] if kept else [0] * len(counts)
        recent = [count - earlier for count, earlier in zip(counts, before, strict=True)]
        if not kept or now_s - kept[-1][0] >= KEPT_EVERY_S:
            kept.append((now_s, counts))
        return {name: quantile(recent, fraction) / 1000 for name, fraction in QUANTILES.items()}
