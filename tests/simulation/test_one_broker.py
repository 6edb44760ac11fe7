"""One broker under crashes, power cuts, partitions, broken connections and bad disks; see `sim_one_broker.py`.

`ODRADEK_SEEDS=1000` runs the seeds 0 to 999 instead of the short list, `ODRADEK_SEEDS=5000-6000` others.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sim_mutants import MUTANTS
from sim_one_broker import Result, simulate
from sim_oracle import Invariant

from odradek.partitions.state import PartitionState

SHORT = tuple(range(12))
MUTANT_SEEDS = 80
"""The rarest of the planted bugs shows in about one seed of twenty."""
SCRIPT = Path(__file__).with_name("sim_one_broker.py")

simulated = cache(simulate)


def seeds() -> tuple[int, ...]:
    wanted = os.environ.get("ODRADEK_SEEDS")
    if not wanted:
        return SHORT
    first, dash, end = wanted.rpartition("-")
    return tuple(range(int(first) if dash else 0, int(end)))


def in_another_process(seed: int, hash_seed: str) -> str:
    """The digest that the command line prints."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, str(SCRIPT), str(seed)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.split()[-1]


@pytest.mark.parametrize("seed", seeds())
def test_every_promise_holds(seed):
    result: Result = simulated(seed)
    assert not result.failure, result.explain()
    assert result.records > 100


@pytest.mark.parametrize("seed", range(100, 104))
def test_without_syncs_a_kill_loses_nothing(seed):
    result = simulate(seed, syncs=False)
    assert not result.failure, result.explain()


def test_the_short_list_meets_every_kind_of_fault():
    met = sum((Counter(simulated(seed).faults) for seed in SHORT), Counter())
    assert met.keys() == {"kill", "cut_power", "restart", "partition", "bad_disk", "bad_network", "step_clock"}
    assert all(count >= 4 for count in met.values()), met


def test_a_seed_gives_its_trace_again():
    assert simulate(3).digest == simulate(3).digest


def test_another_seed_gives_another_trace():
    assert len({simulated(seed).digest for seed in SHORT}) == len(SHORT)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_gives_its_trace_in_every_process(hash_seed):
    assert in_another_process(5, hash_seed) == simulated(5).digest


def broken_invariants() -> Iterator[Invariant]:
    """What the seeds find, one after the other; a failure that is no broken promise is the mutant's own defect."""
    for seed in range(MUTANT_SEEDS):
        result = simulate(seed)
        if result.failure:
            assert result.invariant is not None, result.explain()
            yield result.invariant


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found_by_the_invariant_that_it_breaks(name, monkeypatch):
    plant, broken = MUTANTS[name]
    plant(monkeypatch)
    assert broken in broken_invariants(), plant.__doc__


def test_a_mutant_that_fails_by_itself_finds_nothing(monkeypatch):
    monkeypatch.setattr(PartitionState, "begin_epoch", lambda self, _epoch: self.misspelt)
    with pytest.raises(AssertionError, match="misspelt"):
        list(broken_invariants())


def test_a_failure_says_how_to_see_it_again(monkeypatch):
    plant, _ = MUTANTS["receive_buffer_reused"]
    plant(monkeypatch)
    told = simulate(4).explain()
    assert "seed 4" in told
    assert "sim_one_broker.py 4" in told
