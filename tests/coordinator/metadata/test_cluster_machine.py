"""Random runs of a cluster hold all invariants; a controller without some safety step breaks that step's invariant."""

import pytest
from cluster_invariants import Violation
from cluster_mutants import MUTANTS
from cluster_run import Run
from long_form import rounds

STEPS = 400
SEEDS = rounds(40, 5000)


@pytest.mark.torture
def test_random_runs_hold_every_invariant():
    committed = elections = 0
    for seed in range(SEEDS):
        run = Run(seed)
        try:
            run.go(STEPS)
        except Violation as violation:
            pytest.fail(f"seed {seed}, step {len(run.trace)}: {violation}")
        committed += sum(map(len, run.model.committed.values()))
        elections += sum(run.model.partition(key).leader_epoch for key in run.model.partition_keys())
    assert committed > 5 * SEEDS, "runs that commit nothing show nothing"
    assert elections > 5 * SEEDS, "nor do runs in which leaders stay"


@pytest.mark.torture
def test_brokers_that_are_killed_lose_nothing():
    committed = recovered = 0
    for seed in range(SEEDS // 2):
        run = Run(seed, only_kills=True)
        try:
            run.go(STEPS)
        except Violation as violation:
            pytest.fail(f"seed {seed}, step {len(run.trace)}: {violation}")
        assert not run.model.unclean, f"seed {seed}: a leader without all that was committed"
        committed += sum(map(len, run.model.committed.values()))
        recovered += sum(run.model.partition(key).leader_recovery_state for key in run.model.partition_keys())
    assert committed > 5 * SEEDS // 2
    assert recovered, "or no last known leader was elected"


def found_by(mutant):
    """The invariants that the mutant broke, up to and including its own."""
    names = []
    with mutant.planted():
        for seed in range(mutant.first_seed, mutant.first_seed + mutant.seeds):
            try:
                Run(seed).go(STEPS)
            except Violation as violation:
                names.append(violation.name)
                if violation.name == mutant.invariant:
                    break
            except AssertionError:
                names.append("another")
    return names


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_safety_step_is_found_by_its_own_invariant(name):
    assert MUTANTS[name].invariant in found_by(MUTANTS[name])


def test_one_seed_is_one_run():
    first, second = Run(7), Run(7)
    for run in (first, second):
        run.go(STEPS)
    assert first.trace == second.trace
    assert first.model.world.log == second.model.world.log
