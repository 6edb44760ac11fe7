"""Medians, spreads and ratios of paired measurements. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

SAME_WITHIN = 0.05
"""Ratios within this distance of 1 count as the same."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of several measurements of one figure."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """The spread of these values; None if there are none."""
        if not values:
            return None
        return cls(median(values), min(values), max(values), len(values))


def paired_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours divided by theirs, round by round, so that a slowdown of a whole round cancels out.

    Rounds in which one side measured zero (less than the clock's resolution) are left out.
    """
    return [a / b for a, b in zip(ours, theirs, strict=False) if a > 0 and b > 0]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: `share` (0 to 1) of the ordered values are below it. Raises ValueError if empty."""
    if not ordered:
        raise ValueError("no values")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def verdict(ratio: float, *, higher_is_better: bool) -> str:
    """`better`, `same` or `worse`: whether ours, the dividend of the ratio, is better than theirs."""
    if abs(ratio - 1) <= SAME_WITHIN:
        return "same"
    return "better" if (ratio > 1) is higher_is_better else "worse"


def rounded(value: float) -> str:
    """Three significant digits, thousands separated, no exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
