"""What is published, when, and in which order it takes effect; a failed write leaves no gap."""

from uuid import UUID

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient

from odradek.coordinator.metadata.controller.brokers import BrokerRegistration
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.elections import ElectionCounts
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.coordinator.metadata.image.replay import replay
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import PartitionChangeRecord, PartitionRecord, TopicRecord


def topic_added(before: MetadataImage, number: int) -> MetadataDelta:
    delta = MetadataDelta(before)
    replay(delta, TopicRecord(name=f"t{number}", topic_id=UUID(int=number)), number, 1)
    return delta


def test_reactions_are_called_in_their_order_once_the_image_is_published():
    publisher = MetadataPublisher()
    called = []

    def reaction(name):
        return lambda delta, image: called.append((name, delta, image, publisher.image is image))

    publisher.call(reaction("first"), reaction("second"))
    delta = topic_added(publisher.image, 1)
    publisher.publish(delta)
    image = delta.apply()
    assert called == [("first", delta, image, True), ("second", delta, image, True)]
    assert publisher.image is image
    assert publisher.topic_name(UUID(int=1)) == "t1"
    assert publisher.topic_name(UUID(int=2)) is None


def test_a_delta_that_does_not_follow_is_no_image():
    publisher = MetadataPublisher()
    first = topic_added(publisher.image, 1)
    publisher.publish(topic_added(publisher.image, 2))
    with pytest.raises(AssertionError, match="follows the image"):
        publisher.publish(first)


def test_a_broker_that_is_not_in_the_log_yet_is_shown_in_every_image():
    publisher = MetadataPublisher()
    listener = ListenerImage("PLAINTEXT", "here", 9092)
    publisher.show_broker(BrokerRegistration(7, UUID(int=1), "cluster", [listener], rack="r"))
    assert publisher.image.brokers[7].rack == "r"
    publisher.publish(topic_added(publisher.logged, 1))
    assert publisher.image.brokers[7].listeners == {"PLAINTEXT": listener}
    assert publisher.image.topic("t1") is not None
    assert not publisher.logged.brokers


def test_elections_count_once_the_node_has_caught_up():
    publisher = MetadataPublisher()

    def publish(*records: Message) -> None:
        delta = MetadataDelta(publisher.logged)
        for record in records:
            replay(delta, record, delta.offset + 1, 1)
        publisher.publish(delta)

    topic_id = UUID(int=1)
    first = PartitionRecord(topic_id=topic_id, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0)
    second = PartitionChangeRecord(topic_id=topic_id, leader=2)
    publish(TopicRecord(name="t", topic_id=topic_id), first, second)
    publisher.begin_counting()
    assert publisher.elections == ElectionCounts()
    publish(PartitionChangeRecord(topic_id=topic_id, leader=1), second)
    assert publisher.elections == ElectionCounts(leaders=2)


def test_after_a_failed_write_the_next_delta_follows_the_published_image():
    """The shard is rebuilt from that image, without the failed change and without applying any change twice."""
    published = []
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        publisher = broker.broker.services.metadata
        client.create_topic("a")
        broker.in_trio(lambda: publisher.call(lambda delta, image: published.append((delta, image))))
        before = publisher.image
        broker.env.fail_next_write()
        assert created(client, "b") == ErrorCode.KAFKA_STORAGE_ERROR
        assert published == []
        assert created(client, "c") == 0
        after = publisher.image
    changed = [[topic.name for topic in map(image.topic_by_id, delta.topics.changed)] for delta, image in published]
    assert [names for names in changed if names] == [["c"]]
    assert published[0][0].before is before
    assert [delta.before for delta, _ in published[1:]] == [image for _, image in published[:-1]]
    assert sorted(after.topics_by_name) == ["a", "c"]
    assert after.topics_by_id[after.topics_by_name["a"].topic_id] is before.topics_by_name["a"]


def created(client: RawClient, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return client.call(CreateTopicsRequest(topics=(topic,))).topics[0].error_code


def test_the_features_epoch_is_the_offset_of_the_newest_record():
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        controller = broker.broker.services.controller
        asked = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        for name in ("a", "b"):
            client.create_topic(name)
            _, end = broker.in_trio(controller.extent)
            assert client.call(asked).finalized_features_epoch == end - 1
        image = broker.broker.services.metadata.image
        assert image.brokers[1].epoch == 6, "behind the leader's, the cluster's id, three features and a setting"
        assert (image.offset, image.epoch) == (end - 1, 1)
