"""Each bug planted by `sim_cluster_mutants.py` is found by the invariant that it violates, within the seeds stated."""

import pytest
from sim_cluster_mutants import MUTANTS

from odradek.gateway.testing.simulation.cluster.run import Plan, simulate

MUTANT_SEEDS = 10
SECONDS = 10.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found_by_the_invariant_that_it_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, broken, faults, first = MUTANTS[name]
    plant(monkeypatch)
    seeds = range(first, first + MUTANT_SEEDS)
    found = (simulate(Plan(seed, SECONDS, faults=faults)).invariant for seed in seeds)
    assert any(each is broken for each in found), plant.__doc__
