"""The types of a benchmark: cases, with their figures and the modes and effort that they are measured with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.brokers import Side

ODRADEK, KAFKA = "Odradek", "Kafka"
CPU = "cpu"
"""A figure that most cases have besides their own: the broker's CPU seconds per unit of work."""


class NotMeasuredError(Exception):
    """A figure could not be measured; the message contains the reason."""


class Mode(Enum):
    """When a Produce request is acknowledged. Both sides have the same setting of the topic, `flush.messages`."""

    PAGE_CACHE = "page cache"  # Kafka's default
    FSYNC = "fsync"  # Odradek's default; Kafka with flush.messages=1
    ANY = ""  # the work does not depend on it


FLUSH_MESSAGES = {Mode.PAGE_CACHE: "9223372036854775807", Mode.FSYNC: "1"}
AS_SHIPPED = "as shipped"
"""Odradek with fsync, Kafka with the page cache: each with its default."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a measurement. `key` is its key in the result of `Case.measure`."""

    key: str
    unit: str
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Effort:
    """The size of a run. `duration_s` is for loads that run for a time, `scale` for loads of a number of records.

    After the first round, no round is begun that would end after `budget_s`.
    """

    rounds: int
    duration_s: float
    scale: float
    budget_s: float = float("inf")
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark: one row of the table for each figure and mode.

    `measure(side, mode, effort)` runs the load once on one side, and returns figures by key, some with CPU. It raises
    NotMeasuredError. `sides` are those that are measured; `absent` is the reason why the other is not. `rounds` is the
    number of measurements of a case that is not in `LOADS` or `CLUSTERS`.
    """

    name: str
    title: str
    figures: tuple[Figure, ...]
    measure: Callable[[Side, Mode, Effort], Mapping[str, float]]
    modes: tuple[Mode, ...] = (Mode.PAGE_CACHE, Mode.FSYNC)
    quick_modes: tuple[Mode, ...] | None = None
    as_shipped: bool = False
    sides: tuple[str, ...] = (ODRADEK, KAFKA)
    absent: str = ""
    rounds: int = 1

    def modes_for(self, effort: Effort) -> tuple[Mode, ...]:
        """The modes to measure with this effort."""
        return self.quick_modes if effort.quick and self.quick_modes is not None else self.modes
