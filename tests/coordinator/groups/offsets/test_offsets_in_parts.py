"""Offsets of deleted topics and offsets past their retention are deleted in parts."""

from uuid import UUID

import pytest
from group_world import World

from odradek.coordinator.groups.config import MS_PER_MINUTE, GroupConfig
from odradek.coordinator.groups.offsets.expiry import DELETED_AT_ONCE
from odradek.coordinator.metadata.image.image import MetadataImage, TopicImage
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequestGroup

COUNT = 2 * DELETED_AT_ONCE + 200
OLD, NEW = UUID(int=1), UUID(int=2)


def commit(world, count, topic_id=OLD, group="g", name="t"):
    parts = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in range(count)]
    topic = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=tuple(parts))
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=(topic,))
    world.apply(world.shard.offset_commit(request, world.caller(9), world.token(), world.now_ms))


def left(world):
    return {group: {name: len(parts) for name, parts in topics.items()} for group, topics in offsets(world)}


def fetched(world):
    """The offsets that a client fetches; an unfinished deletion is already applied."""
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    [reply] = world.shard.offset_fetch_group(request, False, world.token(), world.now_ms).replies
    world.waiting.clear()
    return {topic.name: len(topic.partitions) for topic in reply.value.topics}


def offsets(world):
    return world.shard.table.offsets.store.groups()


@pytest.mark.parametrize("limit", [0, 10, DELETED_AT_ONCE])
def test_the_offsets_of_a_deleted_topic_go_in_parts(limit):
    world = World()
    commit(world, COUNT)
    commit(world, 3, group="h")
    commit(world, 2, name="kept")
    first, _ = world.apply(world.shard.on_topics_deleted(["t"], 0, limit))
    assert fetched(world) == {"kept": 2}
    later = [len(records) for records, _ in world.advance(0)]
    assert len(first) == limit
    assert max(later) == DELETED_AT_ONCE
    assert len(first) + sum(later) == COUNT + 3
    assert left(world) == {"g": {"kept": 2}}
    assert list(world.advance(1000)) == []


def test_offsets_in_a_topic_of_the_same_name_stay():
    topic = TopicImage("t", NEW, is_internal=False)
    world = World(image=MetadataImage(topics_by_name={"t": topic}, topics_by_id={NEW: topic}))
    commit(world, COUNT)
    world.apply(world.shard.on_topics_deleted(["t"], 0, 0))
    commit(world, 3, NEW)
    assert fetched(world) == {"t": 3}
    assert sum([len(records) for records, _ in world.advance(0)]) == COUNT - 3
    assert left(world) == {"g": {"t": 3}}


def test_offsets_past_their_retention_go_in_parts():
    world = World(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=2 * MS_PER_MINUTE))
    commit(world, COUNT)
    commit(world, 7, group="h")
    parts = [len(records) for records, _ in world.advance(2 * MS_PER_MINUTE)]
    assert max(parts) == DELETED_AT_ONCE
    assert sum(parts) == COUNT + 7 + 2  # plus a tombstone for each group
    assert left(world) == {}
    assert not world.shard.table.classic.groups
    assert [len(records) for records, _ in world.advance(2 * MS_PER_MINUTE)] == [0]
