"""The conditions under which a disk may be lost, and a broker may end uncleanly, by the replicas of each partition."""

from uuid import UUID

import pytest

from odradek.coordinator.metadata.image.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.cluster.invariants import Invariants
from odradek.gateway.testing.simulation.cluster.trust import TrustedBrokers

BROKERS = (1, 2, 3, 4)


def partition(*replicas: int, adding: tuple[int, ...] = ()) -> PartitionImage:
    isr = tuple(each for each in replicas if each not in adding)
    return PartitionImage(replicas, isr, leader=replicas[0], leader_epoch=1, partition_epoch=1, adding_replicas=adding)


@pytest.fixture
def invariants():
    world = World(0)
    yield Invariants(world, {})
    world.close()


def trusted(invariants: Invariants, *partitions: PartitionImage) -> TrustedBrokers:
    brokers = {node: BrokerImage(node, node, UUID(int=node), {}) for node in BROKERS}
    topic = TopicImage("t", UUID(int=9), False, partitions)
    invariants.image = MetadataImage(brokers=brokers, topics_by_name={"t": topic})
    return TrustedBrokers(invariants, BROKERS)


def test_a_lost_disk_of_a_controller_leaves_nothing_to_register(invariants) -> None:
    trusted(invariants, partition(1, 2, 3)).loses_disk(101)
    assert invariants.in_sync()


def test_of_each_partition_one_replica_stays_trusted(invariants) -> None:
    brokers = trusted(invariants, partition(1, 2), partition(2, 3, 4))
    brokers.will_lose_disk(1)
    assert not brokers.may_end_uncleanly(2), "also while the other one is still ending"
    assert brokers.may_end_uncleanly(3)
    brokers.loses_disk(1)
    assert not brokers.may_end_uncleanly(2)
    assert brokers.may_end_uncleanly(3)


def test_a_replica_that_is_being_added_is_not_trusted(invariants) -> None:
    brokers = trusted(invariants, partition(1, 2, 3))
    brokers.will_lose_disk(1)
    brokers.ends_uncleanly(2)
    trusted_now = partition(1, 2, 3, 4, adding=(4,))
    invariants.image = MetadataImage(
        brokers=invariants.image.brokers, topics_by_name={"t": TopicImage("t", UUID(int=9), False, (trusted_now,))}
    )
    assert not brokers.may_end_uncleanly(3)
