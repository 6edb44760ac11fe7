"""One broker under crashes, power cuts, partitions, broken connections and bad disks; see `sim_one_broker.py`.

`make torture` runs more seeds than the short list; `ODRADEK_SEEDS=1000` the seeds 0 to 999, `ODRADEK_SEEDS=5000-6000`
others.
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
from sim_one_broker import ALL, Result, simulate

from odradek.gateway.testing.simulation.loads.oracle import Invariant
from odradek.partitions.state import PartitionState
from tests.long_form import LONG, seeds

FOUND_LATE = {"lost_first_batches_forgotten", "tombstones_removed_early", "read_before_commit"}
"""Planted bugs whose search takes 8 to 20 seconds: in the tier `rest`."""
SHORT = tuple(range(12))
MANY = 500
AT_STAKE = {
    "records read": 1500,
    "transactions committed": 40,
    "transactions aborted": 12,
    "superseded producers fenced": 5,
    "stable offsets seen": 100,
    "records read by a group of epochs": 300,
    "members died": 1,
    "members stood still": 1,
    "classic members in the group": 3,
    "scans of a compacted log": 50,
    "records compacted away": 500,
    "reads near the start of a log": 100,
    "deletions of records": 4,
    "records removed by-size": 50,
    "records removed by-age": 150,
}
"""The least counts of the loads' events in the short list; with fewer, the invariants are hardly tested."""
MUTANT_SEEDS = 80
"""The rarest planted bug is found by about one seed in twenty-five."""
SCRIPT = Path(__file__).with_name("sim_one_broker.py")


@cache
def simulated(seed: int) -> Result:
    """Run a seed: in the short form with two of the loads, all in turn; in the long form with all of them."""
    short = tuple(ALL[(seed + turn) % len(ALL)] for turn in range(2))
    return simulate(seed, loads=ALL if LONG else short)


with_all_loads = cache(simulate)


def in_another_process(seed: int, hash_seed: str) -> str:
    """The digest that the command line prints."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, str(SCRIPT), str(seed)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.split()[-1]


@pytest.mark.torture
@pytest.mark.parametrize("seed", seeds(SHORT, MANY))
def test_every_promise_holds(seed):
    result: Result = simulated(seed)
    assert not result.failure, result.explain()
    assert sum(result.tally.values()) > 100


@pytest.mark.parametrize("seed", range(100, 102))
def test_without_syncs_a_kill_loses_nothing(seed):
    result = simulate(seed, syncs=False)
    assert not result.failure, result.explain()


def test_the_short_list_meets_every_kind_of_fault():
    met = sum((Counter(simulated(seed).faults) for seed in SHORT), Counter())
    assert met.keys() == {"kill", "cut_power", "restart", "partition", "bad_disk", "bad_network", "step_clock"}
    assert all(count >= 4 for count in met.values()), met


def test_the_short_list_puts_every_promise_at_stake():
    done = sum((Counter(simulated(seed).tally) for seed in SHORT), Counter())
    assert {name: done[name] for name, least in AT_STAKE.items() if done[name] < least} == {}


def test_a_seed_gives_its_trace_again():
    assert simulate(3).digest == simulate(3).digest


def test_another_seed_gives_another_trace():
    assert len({simulated(seed).digest for seed in SHORT}) == len(SHORT)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_gives_its_trace_in_every_process(hash_seed):
    assert in_another_process(5, hash_seed) == with_all_loads(5).digest


def broken_invariants(load: str, first: int = 0) -> Iterator[Invariant]:
    """The invariants that seeds find violated. Any other failure is a defect of the mutant, and fails the test."""
    for seed in range(first, first + MUTANT_SEEDS):
        result = simulate(seed, loads=(load,))
        if result.failure:
            assert result.invariant is not None, result.explain()
            yield result.invariant


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in FOUND_LATE else name for name in MUTANTS]
)
def test_a_planted_bug_is_found_by_the_invariant_that_it_breaks(name, monkeypatch):
    plant, broken, load, first = MUTANTS[name]
    plant(monkeypatch)
    assert broken in broken_invariants(load, first), plant.__doc__


def test_a_mutant_that_fails_by_itself_finds_nothing(monkeypatch):
    monkeypatch.setattr(PartitionState, "begin_epoch", lambda self, _epoch: self.misspelt)
    with pytest.raises(AssertionError, match="misspelt"):
        list(broken_invariants("plain"))


def test_a_failure_says_how_to_see_it_again(monkeypatch):
    MUTANTS["receive_buffer_reused"].plant(monkeypatch)
    told = simulate(4, loads=("plain",)).explain()
    assert "seed 4" in told
    assert "sim_one_broker.py 4 --trace --load plain" in told
