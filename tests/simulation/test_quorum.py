"""Whole nodes of a metadata quorum under faults; see `sim_quorum.py`. `make torture` runs more seeds."""

from collections import Counter
from functools import cache

import pytest
from sim_quorum import simulate
from sim_quorum_mutants import MUTANTS

from tests.long_form import rounds

SHORT = 8
MANY = 500
MUTANT_SEEDS = 20

simulated = cache(simulate)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(rounds(SHORT, MANY)))
def test_every_invariant_holds(seed: int) -> None:
    result = simulated(seed)
    assert result.violation is None, result.explain()
    assert result.tally["answered"] > 20


def test_the_short_list_has_faults_and_leaders_that_change() -> None:
    done = sum((simulated(seed).tally for seed in range(SHORT)), Counter())
    assert sum(done[kind] for kind in ("kill", "cut_power", "restart")) > 5
    assert sum(done[kind] for kind in ("cut_off", "one_way", "bad_network", "slow_disk")) > 5
    assert done["leaders"] > SHORT


def test_a_seed_gives_its_course_again() -> None:
    assert simulate(2).digest == simulated(2).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found_by_the_invariant_that_it_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, broken = MUTANTS[name]
    plant(monkeypatch)
    found = (simulate(seed, settings={}).violation for seed in range(MUTANT_SEEDS))  # without snapshots
    assert any(each.invariant is broken for each in found if each is not None), plant.__doc__
