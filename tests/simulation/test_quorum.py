"""Whole nodes of a metadata quorum under faults; see `sim_quorum.py`. `make torture` runs more seeds."""

from collections import Counter
from functools import cache

import pytest
import trio
from sim_quorum import Cluster, simulate
from sim_quorum_mutants import MUTANTS

from odradek.coordinator.quorum.values import State
from odradek.gateway.testing.simulation import run_virtually
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


def test_a_node_whose_log_is_closed_does_not_fetch_without_a_pause() -> None:
    """A node that stops closes its log; until its quorum ends too, the leader has records that it cannot append."""
    cluster = Cluster(1)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for host in cluster.hosts.values():
                host.start(nursery)
            nursery.start_soon(cluster.create_forever)
            while cluster.seen.tally["answered"] < 5:  # noqa: ASYNC110 - of virtual time
                await trio.sleep(0.05)
            quorums = [broker.services.quorum for broker in cluster.brokers().values()]
            follower = next(each for each in quorums if each.core.state is State.FOLLOWER)
            follower.replica.retire()
            answered, before = cluster.seen.tally["answered"], cluster.world.trace.count
            await trio.sleep(1.5)
            assert cluster.seen.tally["answered"] > answered
            assert cluster.world.trace.count - before < 500
            for host in cluster.hosts.values():
                await host.crash(power_cut=False)
            nursery.cancel_scope.cancel()

    run_virtually(1, main)
    cluster.world.close()
