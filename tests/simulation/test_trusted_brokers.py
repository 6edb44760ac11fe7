"""The conditions under which a disk may be lost, and a broker may end uncleanly, by the replicas of each partition."""

from dataclasses import replace
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


def registered_again(invariants: Invariants, node: int) -> None:
    """Give the broker a new epoch, and leave it out of the ISRs, as its registration does."""
    image = invariants.image
    assert image is not None
    brokers = {**image.brokers, node: replace(image.brokers[node], epoch=image.brokers[node].epoch + 100)}
    topic = image.topics_by_name["t"]
    partitions = [replace(part, isr=tuple(each for each in part.isr if each != node)) for part in topic.partitions]
    topics = {"t": replace(topic, partitions=tuple(partitions))}
    invariants.image = replace(image, brokers=brokers, topics_by_name=topics)


def test_no_other_replica_ends_before_the_broker_without_its_disk_has_registered(invariants) -> None:
    """The third one may be fenced meanwhile, and not be eligible: then no replica with all records is left."""
    brokers = trusted(invariants, partition(1, 2, 3), partition(4, 3, 2))
    brokers.will_lose_disk(1)
    brokers.loses_disk(1)
    assert not brokers.may_end_uncleanly(2)
    assert brokers.may_end_uncleanly(4)
    registered_again(invariants, 1)
    assert brokers.may_end_uncleanly(2)


def test_no_disk_is_lost_while_another_replica_has_ended_and_not_registered(invariants) -> None:
    brokers = trusted(invariants, partition(1, 2, 3), partition(4, 3))
    brokers.ends_uncleanly(2)
    assert not brokers.may_lose_disk(1)
    assert brokers.may_lose_disk(4)


def test_a_broker_that_has_not_ended_after_all_is_trusted_again(invariants) -> None:
    brokers = trusted(invariants, partition(1, 2, 3))
    assert brokers.trusts(2)
    brokers.ends_uncleanly(2)
    assert not brokers.trusts(2)
    brokers.has_not_ended(2)
    assert brokers.trusts(2)
    assert brokers.may_lose_disk(1)


def test_a_replica_that_is_being_added_is_not_trusted(invariants) -> None:
    brokers = trusted(invariants, partition(1, 2, 3))
    brokers.will_lose_disk(1)
    brokers.ends_uncleanly(2)
    trusted_now = partition(1, 2, 3, 4, adding=(4,))
    invariants.image = MetadataImage(
        brokers=invariants.image.brokers, topics_by_name={"t": TopicImage("t", UUID(int=9), False, (trusted_now,))}
    )
    assert not brokers.may_end_uncleanly(3)
