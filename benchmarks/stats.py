"""Medians, spreads and ratios of paired measurements. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

SAME_WITHIN = 0.05
"""Ratios this near to one are called the same."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Summarise; None when there is nothing to summarise."""
        if not values:
            return None
        return cls(median(values), min(values), max(values), len(values))


def paired_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours over theirs, round by round, so that what slowed a whole round down cancels out.

    A round in which one side measured zero (less than the clock can tell) has no ratio.
    """
    return [a / b for a, b in zip(ours, theirs, strict=False) if a > 0 and b > 0]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the ordered values lie: the nearest rank. Raises ValueError on none."""
    if not ordered:
        raise ValueError("no values")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def verdict(ratio: float, *, higher_is_better: bool) -> str:
    """`better`, `same` or `worse`, for the first of the two that were compared."""
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
