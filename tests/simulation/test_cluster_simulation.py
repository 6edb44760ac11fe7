"""Whole clusters under faults, as `odradek simulate` runs them. `make torture` runs more and longer seeds."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest
from click.testing import CliRunner

from odradek.gateway.cli.main import cli
from odradek.gateway.testing.simulation.cluster.faults import FAULTS
from odradek.gateway.testing.simulation.cluster.run import Plan, Result, simulate
from tests.long_form import LONG, rounds

SHORT, MANY = 4, 300
SECONDS = 60.0 if LONG else 6.0
DIGEST = re.compile(r"^digest +([0-9a-f]{32}) ", re.MULTILINE)


@cache
def simulated(seed: int) -> Result:
    return simulate(Plan(seed, SECONDS))


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(rounds(SHORT, MANY)))
def test_no_promise_is_broken(seed: int) -> None:
    result = simulated(seed)
    assert not result.failure, f"{result.plan.command()}\n{result.failure}\n" + "\n".join(result.trace[-60:])
    assert result.acknowledged > 10
    assert min(result.faults.values(), default=0) >= 0


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(rounds(2, MANY)))
def test_none_is_with_a_single_controller(seed: int) -> None:
    result = simulate(Plan(seed, SECONDS, voters=1))
    assert not result.failure, f"{result.plan.command()}\n{result.failure}\n" + "\n".join(result.trace[-60:])
    assert result.acknowledged > 10


@pytest.mark.long
def test_the_short_list_has_faults_and_leaders_that_change() -> None:
    total = sum((simulated(seed).tally for seed in range(SHORT)), Counter())
    assert total["elections"] > 20
    assert total["isr changes"] > 20
    assert total["transactions committed"] > 5
    assert sum(sum(simulated(seed).faults.values()) for seed in range(SHORT)) > 4


def test_seeds_choose_every_kind_of_fault() -> None:
    from odradek.gateway.testing.simulation import World
    from odradek.gateway.testing.simulation.cluster.faults import mix_of

    assert {kind for seed in range(40) for kind in mix_of(World(seed))} == set(FAULTS)


def test_a_seed_gives_its_course_again_in_another_process() -> None:
    command = [sys.executable, "-m", "odradek", "simulate", "--seed", "1", "--minutes", "0.05"]
    digests = {
        found.group(1)
        for hash_seed in ("1", "2")
        for found in DIGEST.finditer(
            subprocess.run(
                command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
            ).stdout
        )
    }
    assert digests == {simulate(Plan(1, 3.0)).digest}


@pytest.mark.long
def test_seeds_side_by_side_come_to_what_they_come_to_one_after_the_other() -> None:
    command = [sys.executable, "-m", "odradek", "simulate", "--seeds", "1-3", "--minutes", "0.05"]
    one, two = (
        subprocess.run([*command, "--jobs", jobs], capture_output=True, text=True, check=True).stdout
        for jobs in ("1", "2")
    )
    assert one == two
    assert "seeds      1-3, 0 with a violation" in one


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_all_processes_with_what_was_found_until_then(jobs) -> None:
    command = [sys.executable, "-m", "odradek", "simulate", "--seeds", "1-900", "--minutes", "0.05", "--jobs", jobs]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "simulating\n"
        os.killpg(process.pid, signal.SIGINT)
        # The pipes close when the last process that has them open has ended.
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"^seeds      1-900, \d+ of 900 run, 0 with a violation$", told, re.MULTILINE), told


@pytest.fixture
def planted(monkeypatch) -> None:
    """Plants a violation in each run, raised once a topic exists."""
    from odradek.gateway.testing.simulation.cluster.invariants import Invariants
    from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation

    def planted(self, host):
        if self.image is not None and self.image.topic("events"):
            raise Violation(Invariant.LEADER_COMPLETE, "planted")
        look(self, host)

    look = Invariants.look
    monkeypatch.setattr(Invariants, "look", planted)


@pytest.mark.usefixtures("planted")
def test_each_seed_with_a_violation_is_told_with_what_repeats_it() -> None:
    run = CliRunner().invoke(cli, ["simulate", "--seeds", "3-4", "--minutes", "0.05", "--faults", "loss"])
    assert run.exit_code == 1, run.output
    assert "seeds      3-4, 2 with a violation" in run.output
    for seed in (3, 4):
        repeated = f"odradek simulate --seed {seed} --minutes 0.05 --faults loss"
        assert f"violation  {repeated}: Violation: LEADER_COMPLETE: planted" in run.output
    assert "seed 3 breaks Violation: LEADER_COMPLETE: planted" in run.output


@pytest.mark.usefixtures("planted")
def test_a_violation_is_told_with_what_repeats_it_and_the_shortest_that_fails() -> None:
    run = CliRunner().invoke(cli, ["simulate", "--seed", "3", "--minutes", "0.2", "--faults", "kill,loss"])
    assert run.exit_code == 1, run.output
    assert "repeat it with: odradek simulate --seed 3 --minutes 0.2 --faults kill,loss" in run.output
    assert "shortest found: odradek simulate --seed 3 --minutes 0.1 --faults loss" in run.output
    assert "LEADER_COMPLETE: planted" in run.output
