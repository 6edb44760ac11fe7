"""Elections are counted by the records that report them, as Kafka counts them."""

from uuid import UUID

import pytest
from cluster_world import ClusterWorld

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.difference import difference
from odradek.coordinator.metadata.image.elections import ElectionCounts
from odradek.coordinator.metadata.image.image import RECOVERED, RECOVERING, MetadataImage
from odradek.coordinator.metadata.image.replay import replay
from odradek.wire.stored.metadata_records import PartitionChangeRecord, PartitionRecord, TopicRecord

TOPIC_ID = UUID(int=1)


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld()
    for broker in (1, 2, 3):
        world.register(broker, broker)
        world.heartbeat(broker)
    return world


def test_the_record_that_ends_a_reassignment_elects_a_replica_that_was_not_in_sync_before(world: ClusterWorld):
    world.create("t", replicas=[(1, 2)])
    world.reassign("t", 0, (3,))
    world.shard.take_delta()
    world.alter_isr(1, "t", 0, (1, 2, 3))
    assert world.partition("t", 0).leader == 3
    assert world.shard.take_delta().elections == ElectionCounts(leaders=1)


def test_an_election_beyond_the_in_sync_replicas_is_unclean_until_it_has_recovered(world: ClusterWorld):
    world.create("t", replicas=[(1, 2)])
    world.alter_isr(1, "t", 0, (1,))
    world.heartbeat(1, fence=True)
    world.shard.take_delta()
    world.elect(1, "t", 0)
    assert world.shard.take_delta().elections == ElectionCounts(leaders=1, unclean=1)
    world.alter_isr(2, "t", 0, (2,), recovery=RECOVERED)
    assert world.shard.take_delta().elections == ElectionCounts()


def one_partition() -> MetadataImage:
    delta = MetadataDelta()
    replay(delta, TopicRecord(name="t", topic_id=TOPIC_ID), 0, 1)
    record = PartitionRecord(topic_id=TOPIC_ID, replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=0)
    replay(delta, record, 1, 1)
    return delta.apply()


def test_each_record_of_a_delta_counts():
    """A node that was away reads several changes at once: 3 joins, 1 and 2 stop, 3 leads, and is lost."""
    delta = MetadataDelta(one_partition())
    for offset, record in enumerate(
        (
            PartitionChangeRecord(topic_id=TOPIC_ID, isr=(1, 2, 3)),
            PartitionChangeRecord(topic_id=TOPIC_ID, isr=(2, 3), leader=2),
            PartitionChangeRecord(topic_id=TOPIC_ID, isr=(3,), leader=3, eligible_leader_replicas=(2,)),
            PartitionChangeRecord(topic_id=TOPIC_ID, isr=(), leader=-1, eligible_leader_replicas=(2, 3)),
            PartitionChangeRecord(topic_id=TOPIC_ID, isr=(2,), leader=2, eligible_leader_replicas=()),
            PartitionChangeRecord(topic_id=TOPIC_ID, isr=(1,), leader=1, leader_recovery_state=RECOVERING),
        ),
        delta.offset + 1,
    ):
        replay(delta, record, offset, 1)
    assert delta.elections == ElectionCounts(leaders=4, unclean=1, eligible=1)
    assert difference(delta.before, delta.apply()).elections == ElectionCounts()
