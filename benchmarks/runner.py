"""Runs cases in rounds, the sides in turn, and stores every figure, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.brokers import Side
from benchmarks.cases import Case, Effort, Mode, NotMeasuredError

Key = tuple[Mode, str]


@dataclass(slots=True)
class CaseResult:
    """All measurements of one case by mode and side, one for each round. `failures` has the reasons of failed ones."""

    case: Case
    samples: dict[Key, list[Mapping[str, float]]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)

    def values(self, mode: Mode, side: str, figure: str) -> list[float]:
        """The values of one figure, one for each round."""
        return [sample[figure] for sample in self.samples.get((mode, side), []) if figure in sample]


def run_case(
    result: CaseResult, number: int, sides: Mapping[str, Side], effort: Effort, say: Callable[[str], None]
) -> None:
    """Measure one round of a case. A side that fails in a mode is not measured in that mode again.

    The order of the sides alternates from round to round.
    """
    case = result.case
    for mode in case.modes_for(effort):
        for name in case.sides if number % 2 == 0 else reversed(case.sides):
            say(f"{case.title} {mode.value}".strip() + f" · round {number + 1} · {name}")
            _measure(result, mode, sides[name], effort)


def run_rounds(
    results: Sequence[CaseResult],
    sides: Mapping[str, Side],
    effort: Effort,
    say: Callable[[str], None],
    clock: Callable[[], float],
    renew: Callable[[], None] | None = None,
) -> int:
    """Measure all cases, round after round, and return the number of rounds.

    `clock` returns the seconds since the run began. After the first round, another one is begun only if there is as
    much time left of the budget as the last one took. `renew` is called between two rounds.
    """
    for number in range(effort.rounds):
        began = clock()
        if number and renew is not None:
            renew()
        for result in results:
            run_case(result, number, sides, effort, say)
        took_s = clock() - began
        if clock() + took_s > effort.budget_s:
            return number + 1
    return effort.rounds


def _measure(result: CaseResult, mode: Mode, side: Side, effort: Effort) -> None:
    key = (mode, side.name)
    if key in result.failures:
        return
    try:
        sample = result.case.measure(side, mode, effort)
    except NotMeasuredError as error:
        result.failures[key] = str(error)
    else:
        result.samples.setdefault(key, []).append(sample)


def renew_brokers(sides: Mapping[str, Side], effort: Effort, say: Callable[[str], None]) -> None:
    """Continue with new brokers: the memory layout and hash seed of one process make it slower or quicker as a whole.

    The figures of two starts of the same Odradek differ by up to 20 %. Not for a JVM, which needs its time to warm up.
    """
    for side in sides.values():
        side.stop()
    warm_up(sides, effort, say)


def warm_up(sides: Mapping[str, Side], effort: Effort, say: Callable[[str], None]) -> None:
    """Start both sides, and run two short loads, so that the JVM compiles its code; the figures are discarded."""
    from benchmarks.produce import librdkafka
    from benchmarks.small_requests import synchronous

    brief = replace(effort, duration_s=1.0)
    for side in sides.values():
        say(f"warming up {side.name}")
        for mode in (Mode.PAGE_CACHE, Mode.FSYNC):
            try:
                librdkafka(side, mode, brief, size_bytes=1000)
                synchronous(side, mode, brief, connections=16, size_bytes=100)
            except NotMeasuredError as error:
                say(f"{side.name} cannot be warmed up: {error}")
