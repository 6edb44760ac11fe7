"""Voters that are added and removed under every mix of faults, and planted bugs of such changes.

`make torture` runs more seeds; `ODRADEK_SEEDS=5000-6000` others.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache

import pytest
from quorum_invariants import Invariant
from quorum_world import Result
from voters_mutants import MUTANTS, Mutant
from voters_world import changing

from tests.long_form import rounds, seeds

pytestmark = pytest.mark.timeout(rounds(900, 3600))
SHORT = 4
MANY = 500
MUTANT_SEEDS = 30

simulated = cache(changing)


@pytest.mark.torture
@pytest.mark.parametrize("voters", [1, 3, 5])
def test_every_invariant_holds_while_voters_change(voters: int) -> None:
    for seed in seeds(range(SHORT), MANY):
        result: Result = simulated(seed, voters)
        assert result.violation is None, f"voters_world.py {seed} {voters}: {result.violation}"


def test_the_short_list_changes_voters_and_loses_disks() -> None:
    met = sum((simulated(seed, voters).tally for seed in range(SHORT) for voters in (3, 5)), Counter())
    assert met["change_NONE"] > 150
    assert met["change_REQUEST_TIMED_OUT"] > 100
    assert met["voter_lost"] >= 3
    assert met["observer_lost"] >= 4


def test_a_disk_lost_during_a_change_can_stop_the_quorum() -> None:
    result = changing(97, 3)
    assert (result.violation, result.tally["stopped"]) == (None, 1)


def test_a_seed_gives_its_course_again() -> None:
    assert changing(3).digest == simulated(3, 3).digest


def violations(mutant: Mutant) -> Iterable[Invariant]:
    for seed in range(MUTANT_SEEDS):
        found = changing(seed, mutant.voters, mutant.faults).violation
        if found is not None:
            yield found.invariant


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_of_changes_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.plant(monkeypatch)
    assert any(each is mutant.broken for each in violations(mutant)), mutant.plant.__doc__
