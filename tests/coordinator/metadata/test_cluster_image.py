"""Registrations in the image: the stored fields of brokers and controllers, and that a snapshot has all of them."""

from uuid import UUID

import pytest
from metadata_shards import add

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.image.snapshot import snapshot_records
from odradek.wire.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

TOPIC = UUID(int=77)
BROKER = RegisterBrokerRecord(
    broker_id=4,
    incarnation_id=UUID(int=44),
    broker_epoch=9,
    end_points=(
        BrokerEndpoint(name="IN", host="a", port=1, security_protocol=0),
        BrokerEndpoint(name="OUT", host="b", port=2, security_protocol=0),
    ),
    features=(BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),),
    rack="r1",
    fenced=True,
    log_dirs=(UUID(int=5),),
)
CONTROLLER = RegisterControllerRecord(
    controller_id=3001,
    incarnation_id=UUID(int=45),
    end_points=(ControllerEndpoint(name="CONTROLLER", host="c", port=3),),
    features=(ControllerFeature(name="group.version", min_supported_version=0, max_supported_version=1),),
)
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=TOPIC,
    replicas=(4, 5, 6),
    isr=(4,),
    removing_replicas=(6,),
    adding_replicas=(5,),
    leader=4,
    leader_epoch=2,
    partition_epoch=3,
    eligible_leader_replicas=(6,),
    last_known_elr=(5,),
)


@pytest.fixture
def delta() -> MetadataDelta:
    delta = MetadataDelta()
    for record in (BROKER, CONTROLLER, TopicRecord(name="t", topic_id=TOPIC), PARTITION):
        add(delta, record)
    return delta


def rebuilt(image: MetadataImage) -> MetadataImage:
    delta = MetadataDelta()
    for offset, record in enumerate(snapshot_records(image)):
        replay(delta, record, offset, 1)
    return delta.apply()


def test_all_of_a_registration_is_kept(delta):
    image = delta.apply()
    broker, controller = image.brokers[4], image.controllers[3001]
    assert (broker.epoch, broker.incarnation_id, broker.rack, broker.log_dirs) == (
        9,
        UUID(int=44),
        "r1",
        (UUID(int=5),),
    )
    assert broker.listeners["OUT"] == ListenerImage("OUT", "b", 2)
    assert broker.features == {"metadata.version": (7, 30)}
    assert controller.listeners == {"CONTROLLER": ListenerImage("CONTROLLER", "c", 3)}
    assert (controller.features, controller.incarnation_id) == ({"group.version": (0, 1)}, UUID(int=45))


def test_a_snapshot_has_brokers_controllers_and_partitions_whole(delta):
    image = delta.apply()
    again = rebuilt(image)
    assert (again.brokers, again.controllers) == (image.brokers, image.controllers)
    assert again.topics_by_id == image.topics_by_id


def test_changes_of_a_registration_leave_the_rest(delta):
    add(delta, BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=9, fenced=-1))
    assert delta.apply().brokers[4].is_active
    add(delta, BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=9, in_controlled_shutdown=1))
    broker = delta.apply().brokers[4]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.is_active) == (False, True, False)
    add(delta, BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=9, fenced=1))
    broker = delta.apply().brokers[4]
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, True)
    assert (broker.features, broker.log_dirs) == ({"metadata.version": (7, 30)}, (UUID(int=5),))
    add(delta, UnregisterBrokerRecord(broker_id=4, broker_epoch=9))
    assert not delta.apply().brokers


def test_a_change_of_a_partition_sets_what_it_names_and_empties_what_it_names_empty(delta):
    add(
        delta, PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(), leader=-1, eligible_leader_replicas=(6, 4))
    )
    partition = delta.apply().topics_by_id[TOPIC].partitions[0]
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (6, 4), (5,))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 3, 4)
    add(delta, PartitionChangeRecord(partition_id=0, topic_id=TOPIC, eligible_leader_replicas=(), last_known_elr=()))
    partition = delta.apply().topics_by_id[TOPIC].partitions[0]
    assert (partition.elr, partition.last_known_elr, partition.leader_epoch, partition.partition_epoch) == (
        (),
        (),
        3,
        5,
    )
