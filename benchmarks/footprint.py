"""A broker's start time, and its memory after the loads."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import Case, Effort, Figure, Mode
from benchmarks.proc import memory_mb


def start_up(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Seconds from the start of the process, on an empty directory, to the first Metadata answer with a broker.

    A first start is not measured, since it compiles changed modules and reads the files from the disk.
    """
    del mode, effort
    side.fresh().stop()
    broker = side.fresh()
    broker.stop()
    return {"seconds": broker.start_s}


def memory(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """The memory of the broker that has served the loads (`LOADS`) of this run."""
    del mode, effort
    broker = side.broker
    broker.check_alive()
    return memory_mb(broker.pid)


START_UP = Case(
    "start-up",
    "start to first Metadata answer",
    (Figure("seconds", "s", higher_is_better=False),),
    start_up,
    modes=(Mode.ANY,),
    rounds=2,
)
MEMORY = Case(
    "memory",
    "memory after the work",
    (
        Figure("anonymous", "MB anonymous", higher_is_better=False),
        Figure("pss", "MB Pss", higher_is_better=False),
        Figure("rss", "MB resident", higher_is_better=False),
    ),
    memory,
    modes=(Mode.ANY,),
)
