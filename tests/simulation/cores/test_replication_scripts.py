"""Sequences of events that lost records in other systems, step by step, on the production leader and followers.

Each is run twice: unchanged, and without the safety step that prevents the loss.
"""

from dataclasses import replace

import pytest
from plant import inside, plant
from replication_controller import Controller, Image
from replication_invariants import Invariant, Violation
from replication_mutants import committed_below_min_isr
from replication_node import Node
from replication_world import World

from odradek.partitions.epochs import EpochHistory
from odradek.partitions.follower import Follower
from odradek.partitions.leader import Leader
from odradek.partitions.results import EpochEnd
from odradek.partitions.truncation import TruncationPoint
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records

BETWEEN_NODES = {(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b}


def quiet_world() -> World:
    """Three replicas that have some records of producers, which write no more. Node 1 leads."""
    world = World(1, ())
    world.run(300)
    for producer in world.producers:
        producer.is_done = True
    world.run(600)
    assert isinstance(world.nodes[1].role, Leader)
    assert all(node.state.high_watermark == world.oracle.end_offset > 20 for node in world.nodes.values())
    return world


def write(node: Node, name: bytes, count: int, acks: int = 1) -> list[ErrorCode]:
    """Produces batches of one record to the node; returns the answers as they come."""
    answers: list[ErrorCode] = []
    for number in range(count):
        data = build_batch([SimpleRecord(b"k", b"%s %d" % (name, number), node.world.now_ms)])
        node.produce(data, acks, answers.append)
    return answers


def elect(world: World, leader: int) -> None:
    """Elects another in-sync replica, as a preferred election does, and waits until all replicas have the metadata."""
    now = world.controller.now
    assert leader in now.isr
    world.controller.now = replace(
        now, leader=leader, leader_epoch=now.leader_epoch + 1, partition_epoch=now.partition_epoch + 1
    )
    world.controller.publish(world.controller.now)
    world.run(world.now_ms + 40)
    assert {node.state.leader_epoch for node in world.nodes.values()} == {now.leader_epoch + 1}


def names(node: Node) -> list[bytes]:
    """The names of the records on the node's disk that tests have written, in the order of the log."""
    return [
        record.value.split(b" ")[0]
        for _, _, data in node.reader.read()
        for header in iter_headers(memoryview(data))
        for record in read_records(memoryview(data), header)
        if record.value is not None and b" " in record.value
    ]


def at_rest(world: World) -> None:
    """Runs until all replicas are in sync, and compares their disks. Raises Violation."""
    world.run(world.now_ms + 2000)
    assert set(world.controller.now.isr) == {1, 2, 3}
    for node in world.nodes.values():
        node.held.forget()
        world.oracle.in_sync(node.name, node.held)
        assert node.state.log_end_offset == world.oracle.end_offset


# KIP-279: two elections without a fetch in between


def two_quick_elections() -> World:
    """Node 1 leads, then node 2, then node 1 again; each has written, and none has fetched from another.

    Where node 1 has records of the epoch before, node 2 has its own. Node 1 does not have the epoch of node 2's last
    record, so its answer must contain where the epoch below it ends. Before the elections records are committed that
    node 2's high watermark does not include yet, so that this is no offset to truncate to. Raises Violation.
    """
    world = quiet_world()
    first, second = world.nodes[1], world.nodes[2]
    write(first, b"committed", 3)
    for at_ms in range(world.now_ms, world.now_ms + 200):
        if first.state.high_watermark < first.state.log_end_offset:
            world.run(at_ms)
    world.cut_links |= BETWEEN_NODES
    shared = second.state.log_end_offset
    assert second.state.high_watermark < world.oracle.end_offset == shared
    write(first, b"first", 6)
    elect(world, 2)
    write(second, b"second", 4)
    elect(world, 1)
    write(first, b"third", 2)
    world.run(world.now_ms + 10)
    assert names(first) == [b"committed"] * 3 + [b"first"] * 6 + [b"third"] * 2
    assert names(second) == [b"committed"] * 3 + [b"second"] * 4
    assert (world.oracle.end_offset, set(world.controller.now.isr)) == (shared, {1, 2, 3})
    world.cut_links.clear()
    at_rest(world)
    return world


def test_a_follower_finds_where_it_has_diverged_after_two_elections_without_a_fetch_between() -> None:
    world = two_quick_elections()
    for node in world.nodes.values():
        assert names(node) == [b"committed"] * 3 + [b"first"] * 6 + [b"third"] * 2
    assert world.tally["truncations"] == 1


def end_where_the_next_epoch_begins(patch: pytest.MonkeyPatch) -> None:
    """For an epoch that it does not have, a leader answers where the next one begins, as before KIP-279."""
    end_of = inside(EpochHistory, "end_of")

    def end_of_any(self: EpochHistory, epoch: int, log_end_offset: int) -> EpochEnd:
        found = end_of(self, epoch, log_end_offset)
        return found if found.end_offset < 0 else found._replace(leader_epoch=epoch)

    plant(patch, EpochHistory, "end_of", end_of_any)


def test_without_the_epoch_below_an_in_sync_replica_has_other_records(monkeypatch: pytest.MonkeyPatch) -> None:
    end_where_the_next_epoch_begins(monkeypatch)
    with pytest.raises(Violation) as broken:
        two_quick_elections()
    assert broken.value.invariant is Invariant.IN_SYNC_HOLDS


def cut_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower truncates to its own high watermark, as before KIP-101."""
    plant(patch, Follower, "truncation", lambda self, _: TruncationPoint(self.state.high_watermark, is_final=True))


def test_a_cut_at_the_high_watermark_takes_committed_records(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_at_the_high_watermark(monkeypatch)
    with pytest.raises(Violation) as broken:
        two_quick_elections()
    assert broken.value.invariant is Invariant.IN_SYNC_HOLDS


# KIP-966: the last replica standing


def last_replica_standing() -> World:
    """The ISR shrinks to node 1 alone, whose disk then loses its newest batches. Raises Violation.

    Node 3 has left first, and lacks what nodes 1 and 2 have acknowledged since. Node 2 has left when too few were in
    sync to acknowledge anything, so it is eligible. Node 1 is back first and is not eligible; nor is node 3.
    """
    world = quiet_world()
    first, second, third = world.nodes[1], world.nodes[2], world.nodes[3]
    third.crash()
    world.run(world.now_ms + 700)
    assert world.controller.now.isr == (1, 2)
    acknowledged = write(first, b"acknowledged", 3, acks=-1)
    world.run(world.now_ms + 100)
    assert acknowledged == [ErrorCode.NONE] * 3
    second.crash()
    world.run(world.now_ms + 700)
    assert (world.controller.now.isr, world.controller.now.elr) == ((1,), (2,))
    refused = write(first, b"refused", 1, acks=-1)
    write(first, b"alone", 2)
    world.run(world.now_ms + 200)
    assert refused == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert names(first) == [b"acknowledged"] * 3 + [b"alone"] * 2

    world.lossy = {1}
    first.crash()
    first.lose(4)
    assert names(first) == [b"acknowledged"]
    first.start(clean=False)
    third.start(clean=True)
    world.run(world.now_ms + 700)
    leaderless: Image = world.controller.now
    assert (leaderless.leader, leaderless.isr, leaderless.elr) == (-1, (), (2,))
    second.start(clean=True)
    world.run(world.now_ms + 700)
    assert world.controller.now.leader == 2
    at_rest(world)
    return world


def test_an_eligible_replica_leads_when_the_last_one_in_sync_has_lost_its_newest_records() -> None:
    world = last_replica_standing()
    for node in world.nodes.values():
        assert names(node) == [b"acknowledged"] * 3


def test_what_the_last_one_commits_alone_is_lost_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    committed_below_min_isr(monkeypatch)
    with pytest.raises(Violation) as broken:
        last_replica_standing()
    assert broken.value.invariant is Invariant.IN_SYNC_HOLDS


def test_a_last_one_that_is_trusted_after_an_unclean_start_lacks_what_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register = inside(Controller, "register")

    def trusting(self: Controller, broker_id: int, *, clean: bool) -> int:
        del clean
        return register(self, broker_id, clean=True)

    plant(monkeypatch, Controller, "register", trusting)
    with pytest.raises(Violation) as broken:
        last_replica_standing()
    assert broken.value.invariant is Invariant.IN_SYNC_HOLDS
