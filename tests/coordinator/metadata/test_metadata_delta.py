"""The changes that a delta reports, and that images share whatever did not change."""

from uuid import UUID

from metadata_shards import ShardUnderTest, add

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.image.delta import MAX_DELETED, MapDelta, MetadataDelta, TopicsDelta
from odradek.coordinator.metadata.image.image import MetadataImage, TopicImage
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.stored.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

A, B = UUID(int=1000), UUID(int=1001)


def two_topics() -> MetadataImage:
    shard = ShardUnderTest()
    topics = tuple(CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("a", "b"))
    shard.run(create_topics, CreateTopicsRequest(topics=topics))
    return shard.image


def leads(topic_id: UUID, index: int) -> PartitionRecord:
    return PartitionRecord(partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)


def test_changed_partitions_are_named_and_others_are_shared():
    before = two_topics()
    delta = MetadataDelta(before)
    add(delta, PartitionChangeRecord(partition_id=1, topic_id=A, isr=(1,), leader=1))
    after = delta.apply()
    assert {topic_id: list(indexes) for topic_id, indexes in delta.topics.changed.items()} == {A: [1]}
    assert after.topics_by_id[A].partitions[0] is before.topics_by_id[A].partitions[0]
    assert after.topics_by_id[B] is before.topics_by_id[B]
    assert after.brokers is before.brokers
    assert after.configs is before.configs
    assert before.topics_by_id[A].partitions[1].leader_epoch == 0


def test_a_record_that_changes_nothing_moves_only_the_offset():
    before = two_topics()
    delta = MetadataDelta(before)
    assert delta.apply() is before
    add(delta, ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="a", name="retention.ms", value=None))
    after = delta.apply()
    assert after.topics_by_id is before.topics_by_id
    assert after.configs is before.configs
    assert after.offset == before.offset + 1
    assert not delta.configs.changed


def test_a_topic_that_is_created_again_is_both_deleted_and_created():
    delta = MetadataDelta(two_topics())
    add(delta, RemoveTopicRecord(topic_id=A))
    add(delta, TopicRecord(name="a", topic_id=UUID(int=5)))
    add(delta, leads(UUID(int=5), 0))
    after = delta.apply()
    assert [(topic.name, topic.topic_id) for topic in delta.topics.deleted_topics()] == [("a", A)]
    assert list(delta.topics.changed) == [UUID(int=5)]
    assert after.topics_by_name["a"].topic_id == UUID(int=5)
    assert after.partition_count == 3


def test_a_topic_that_came_and_went_is_deleted_though_the_image_before_has_none():
    """A start replays the whole log, and must delete the partition logs of topics that were deleted in it."""
    delta = MetadataDelta(two_topics())
    add(delta, TopicRecord(name="c", topic_id=UUID(int=5)))
    add(delta, leads(UUID(int=5), 0))
    add(delta, RemoveTopicRecord(topic_id=UUID(int=5)))
    assert UUID(int=5) in delta.topics.deleted
    assert delta.topics.deleted_topics() == []
    assert not delta.topics.changed
    assert delta.apply().partition_count == 4


def test_an_applied_image_is_not_altered_by_later_records():
    delta = MetadataDelta(two_topics())
    add(delta, PartitionChangeRecord(partition_id=0, topic_id=A, leader=1))
    middle = delta.apply()
    add(delta, PartitionChangeRecord(partition_id=0, topic_id=A, leader=1))
    add(delta, RemoveTopicRecord(topic_id=B))
    assert middle.topics_by_id[A].partitions[0].leader_epoch == 1
    assert B in middle.topics_by_id
    assert delta.apply().topics_by_id[A].partitions[0].leader_epoch == 2
    assert list(delta.topics.changed) == [A]


def test_a_delta_names_the_resources_whose_configs_changed():
    delta = MetadataDelta(two_topics())
    for kind, name in ((ResourceType.TOPIC, "a"), (ResourceType.BROKER, ""), (ResourceType.TOPIC, "a")):
        add(delta, ConfigRecord(resource_type=kind, resource_name=name, name="retention.ms", value="1"))
    assert delta.changed_configs(ResourceType.TOPIC) == ["a"]
    assert delta.changed_configs(ResourceType.BROKER) == [""]


def test_a_shard_hands_out_each_change_once():
    shard = ShardUnderTest()
    assert list(shard.shard.take_delta().brokers.changed) == [1]
    shard.run(
        create_topics, CreateTopicsRequest(topics=(CreatableTopic(name="a", num_partitions=1, replication_factor=1),))
    )
    taken = shard.shard.take_delta()
    assert list(taken.topics.changed) == [A]
    assert not taken.brokers.changed
    following = shard.shard.take_delta()
    assert not following.topics.changed
    assert following.before is taken.apply()


def test_only_so_many_deleted_topics_are_kept():
    topics = TopicsDelta(MetadataImage())
    for number in range(MAX_DELETED + 1):
        topics.create(TopicImage("a", UUID(int=number), is_internal=False))
        topics.delete(UUID(int=number))
    assert len(topics.deleted) == MAX_DELETED
    assert UUID(int=0) not in topics.deleted


def test_a_map_is_copied_at_its_first_change():
    before = {"a": 1}
    delta = MapDelta(before)
    assert delta.apply() is before
    delta.set("b", 2)
    first = delta.apply()
    delta.remove("a")
    delta.remove("missing")
    assert (before, first, delta.apply()) == ({"a": 1}, {"a": 1, "b": 2}, {"b": 2})
    assert list(delta.changed) == ["b", "a"]
