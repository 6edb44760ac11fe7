"""The quorum's state machine under every mix of faults, with three and five voters, and planted bugs.

`make torture` runs more seeds; `ODRADEK_SEEDS=1000` the seeds 0 to 999, `ODRADEK_SEEDS=5000-6000` others.
"""

from collections import Counter
from functools import cache

import pytest
from quorum_disks import Disk, Entry
from quorum_faults import DOWNLOADING, FAILING, KINDS, SECOND, Faults
from quorum_invariants import Invariant, Violation
from quorum_mutants import MUTANTS, old_epoch_committed
from quorum_world import Result, World, simulate

from odradek.coordinator.quorum.values import ElectionState, State
from tests.long_form import rounds, seeds

SHORT = 8
MANY = 1000
MUTANT_SEEDS = 40
"""Every planted bug shows within so many seeds."""

simulated = cache(simulate)


@pytest.mark.torture
@pytest.mark.parametrize("voters", [3, 5])
def test_every_invariant_holds(voters: int) -> None:
    for seed in seeds(range(SHORT), MANY):
        result: Result = simulated(seed, voters)
        assert result.violation is None, result.explain()
        assert result.tally["acknowledged"] > 20, result.explain()


@pytest.mark.torture
@pytest.mark.parametrize("voters", [3, 5])
def test_every_invariant_holds_where_nodes_fall_far_behind(voters: int) -> None:
    results = [simulate(seed, voters, DOWNLOADING) for seed in range(rounds(4, 500))]
    for result in results:
        assert result.violation is None, result.explain()
    assert sum(result.tally["downloaded"] for result in results) > len(results)


@pytest.mark.torture
@pytest.mark.parametrize("voters", [3, 5])
def test_every_invariant_holds_where_syncs_fail(voters: int) -> None:
    results = [simulate(seed, voters, FAILING) for seed in range(rounds(4, 500))]
    for result in results:
        assert result.violation is None, result.explain()
    assert sum(result.tally["sync_failed"] for result in results) > 4 * len(results)


def test_the_short_list_meets_every_kind_of_fault() -> None:
    met = sum((simulated(seed, voters).tally for seed in range(SHORT) for voters in (3, 5)), Counter())
    assert [kind for kind in KINDS if met[kind] < 10] == []
    assert met["elections"] > 60


def test_a_seed_gives_its_course_again() -> None:
    assert simulate(3).digest == simulated(3, 3).digest
    assert simulated(3, 3).digest != simulated(4, 3).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found_by_the_invariant_that_it_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, broken, voters, faults = MUTANTS[name]
    plant(monkeypatch)
    found = (simulate(seed, voters, faults).violation for seed in range(MUTANT_SEEDS))
    assert any(each.invariant is broken for each in found if each is not None), plant.__doc__


def leader_with_a_slow_disk() -> World:
    """Raft's figure 8: node 0 of five wrote in epoch 2 what only node 1 has; node 4 wrote in epoch 3 what no other has.

    Node 0 leads again, and a majority gets the record of epoch 2, while the leader's own first record is being written
    to a slow disk.
    """
    world = World(8, 5, Faults())
    logs: list[list[Entry]] = [[(1, 0), (2, 7)], [(1, 0), (2, 7)], [(1, 0)], [(1, 0)], [(1, 0), (3, 0)]]
    for node, records in zip(world.nodes, logs, strict=False):
        node.crash()
        node.disk = Disk(ElectionState(3), records)
    leader = world.nodes[0]
    leader.start()
    leader.core.on_time(leader.now_ms + 10 * SECOND)  # so that it is the first candidate
    for node in world.nodes[1:4]:
        node.start()
    while leader.core.state is not State.LEADER:
        world.run(100)
    leader.slow_us = 60 * SECOND
    world.run(SECOND)
    assert [node.disk.records[:2] for node in world.nodes[:4]] == [[(1, 0), (2, 7)]] * 4
    assert leader.core.state is State.LEADER
    return world


def bring_back_the_fifth(world: World) -> None:
    """The leader and the other node with the record are stopped for a while; node 4 leads."""
    for node in world.nodes[:2]:
        world.end(node, 30 * SECOND)
    world.nodes[4].start()
    world.run(60 * SECOND)


def test_a_record_of_another_epoch_is_not_committed_before_one_of_the_leaders_own(monkeypatch) -> None:
    world = leader_with_a_slow_disk()
    assert world.oracle.committed == []
    bring_back_the_fifth(world)
    assert world.nodes[4].core.epoch == world.oracle.committed[-1][0]

    old_epoch_committed(monkeypatch)
    world = leader_with_a_slow_disk()
    assert world.oracle.committed[-1] == (2, 7)
    with pytest.raises(Violation, match=Invariant.COMPLETE):
        bring_back_the_fifth(world)
