"""Runs cases in rounds, the sides in turn, and keeps every figure or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.brokers import Side
from benchmarks.cases import Case, Effort, Mode, NotMeasuredError

Key = tuple[Mode, str]


@dataclass(slots=True)
class CaseResult:
    """All measurements of one case, by mode and side, one a round. `failures` say why a series ended."""

    case: Case
    samples: dict[Key, list[Mapping[str, float]]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)

    def values(self, mode: Mode, side: str, figure: str) -> list[float]:
        """One figure, round by round."""
        return [sample[figure] for sample in self.samples.get((mode, side), []) if figure in sample]


def run_case(case: Case, sides: Mapping[str, Side], effort: Effort, say: Callable[[str], None]) -> CaseResult:
    """Measure; a side that fails is left out of the remaining rounds of that mode.

    The order of the sides turns round every time, so that neither always comes after the other.
    """
    result = CaseResult(case)
    rounds = case.rounds or effort.rounds
    for number in range(rounds):
        for mode in case.modes_for(effort):
            order = list(case.sides) if number % 2 == 0 else list(reversed(case.sides))
            for name in order:
                say(f"{case.title} {mode.value} · round {number + 1} of {rounds} · {name}")
                _measure(result, mode, sides[name], effort)
    return result


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


def warm_up(sides: Mapping[str, Side], effort: Effort, say: Callable[[str], None]) -> None:
    """Start both sides and give the JVM's compiler something to compile; the figures are thrown away."""
    from benchmarks.produce import librdkafka
    from benchmarks.small_requests import synchronous

    for side in sides.values():
        say(f"warming up {side.name}")
        for mode in (Mode.PAGE_CACHE, Mode.FSYNC):
            try:
                librdkafka(side, mode, effort, size_bytes=1000)
                synchronous(side, mode, effort, connections=16, size_bytes=100)
            except NotMeasuredError as error:
                say(f"{side.name} cannot be warmed up: {error}")
