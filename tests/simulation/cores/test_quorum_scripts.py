"""Sequences of events in a quorum that went wrong in other systems, step by step, on the production state machine."""

import pytest
from quorum_faults import SECOND, Faults
from quorum_invariants import Invariant, Violation
from quorum_mutants import resumed_leadership
from quorum_node import Node
from quorum_world import World

from odradek.coordinator.quorum.values import State


def leader_of(world: World) -> Node:
    """The leader, once there is one that has committed its first record."""
    while True:
        world.run(SECOND // 10)
        for node in world.nodes:
            if node.alive and node.core.state is State.LEADER and node.core.high_watermark == node.log.end_offset:
                return node


def restart_of_a_leader() -> tuple[World, Node]:
    """A leader's process dies, and restarts before any other node notices (KAFKA-10527).

    The last records that it appended were not on any disk. If it continued to lead in its epoch, other records would
    get their offsets and epoch. Raises Violation.
    """
    world = World(1, 3, Faults(keeps_unsynced=0.0))
    leader = leader_of(world)
    assert leader.propose(7)
    world.run(SECOND // 10)
    assert world.oracle.committed == [(leader.core.epoch, 0), (leader.core.epoch, 7)]
    leader.slow_us = 60 * SECOND
    assert leader.propose(8)
    world.run(SECOND // 100)
    leader.crash()
    leader.slow_us = 0
    leader.start()
    return world, leader


def test_a_leader_that_restarts_at_once_does_not_go_on_in_its_epoch() -> None:
    world, restarted = restart_of_a_leader()
    epoch = world.oracle.committed[-1][0]
    assert (restarted.core.epoch, restarted.core.me.id) == (epoch, restarted.disk.election.leader_id)
    assert restarted.core.state is State.UNATTACHED
    assert not restarted.propose(9)
    elected = leader_of(world)
    assert elected.core.epoch > epoch
    assert elected.propose(10)
    world.run(SECOND)
    assert [value for _, value in world.oracle.committed if value != 0] == [7, 10]
    assert all(later > epoch for later, _ in world.oracle.committed[2:])
    assert all(node.log.entries == world.oracle.committed for node in world.nodes)


def test_a_leader_that_resumes_its_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    resumed_leadership(monkeypatch)
    with pytest.raises(Violation) as broken:
        restart_of_a_leader()
    assert broken.value.invariant is Invariant.LEADS_ONCE
