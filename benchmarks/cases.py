"""What a benchmark is: a load, how both sides are set up for it, and the figures that come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.brokers import Side

ODRADEK, KAFKA = "Odradek", "Kafka"
CPU = "cpu"
"""The figure that every load gives besides its own: the broker's CPU seconds per unit of work."""


class NotMeasuredError(Exception):
    """A figure could not be had; the message says why."""


class Mode(Enum):
    """When a produce is acknowledged. Both sides get the same topic setting, `flush.messages`."""

    PAGE_CACHE = "page cache"  # Kafka's default
    FSYNC = "fsync"  # Odradek's default; Kafka with flush.messages=1
    ANY = ""  # the work does not depend on it


FLUSH_MESSAGES = {Mode.PAGE_CACHE: "9223372036854775807", Mode.FSYNC: "1"}
AS_SHIPPED = "as shipped"
"""Odradek with fsync over Kafka's page cache: each with its own default."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a measurement. `key` is its name in what `Case.measure` returns."""

    key: str
    unit: str
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work to put in. `duration_s` is for loads that run for a time, `scale` for those that count records.

    `budget_s`: no round but the first is begun that would end later.
    """

    rounds: int
    duration_s: float
    scale: float
    budget_s: float = float("inf")
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One row, or several when it has several figures or modes.

    `measure(side, mode, effort)` loads one side once and returns figures by key, perhaps with CPU. It raises
    NotMeasuredError. `sides` are those it makes sense for, `absent` says why not for the other. `rounds` is how often
    a case is measured that does not take part in the rounds of the others.
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
        """The modes that this effort has time for."""
        return self.quick_modes if effort.quick and self.quick_modes is not None else self.modes
