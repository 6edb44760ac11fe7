"""Shrinks a failing run: runs the seed again with fewer kinds of faults and a shorter time."""

import dataclasses
from collections.abc import Callable
from typing import Final

from odradek.gateway.testing.simulation.cluster.run import Plan, Result, simulate

SHORTEST_S: Final = 5.0


def shortest(failed: Result, before_run: Callable[[Plan], None] = lambda _plan: None, most_runs: int = 16) -> Result:
    """A run that violates the same invariant, with the fewest kinds of faults and shortest time found in `most_runs`.

    Each kind is left out in turn, then the time is halved; a change that makes the failure disappear is undone.
    `before_run` is called before each run.
    """
    best = dataclasses.replace(failed, plan=dataclasses.replace(failed.plan, faults=failed.mix))
    runs = 0

    def fails(plan: Plan) -> Result | None:
        nonlocal runs
        runs += 1
        before_run(plan)
        result = simulate(plan)
        return result if result.failure and result.invariant is failed.invariant else None

    for kind in best.mix:
        fewer = tuple(each for each in best.mix if each != kind)
        if fewer and runs < most_runs and (found := fails(dataclasses.replace(best.plan, faults=fewer))):
            best = found
    while best.plan.seconds / 2 >= SHORTEST_S and runs < most_runs:
        found = fails(dataclasses.replace(best.plan, seconds=best.plan.seconds / 2))
        if found is None:
            break
        best = found
    return best
