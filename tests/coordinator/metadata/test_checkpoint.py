"""A snapshot as batches, and the delta of loading one: both lead to the same image as replay."""

from collections.abc import Iterable, Iterator
from random import Random
from uuid import UUID

import pytest
from metadata_shards import NOW_MS, ShardUnderTest

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.image.checkpoint import RECORDS_PER_BATCH, SnapshotReader, snapshot_batches
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.difference import difference
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.image.records import to_shard_records
from odradek.coordinator.metadata.image.replay import replay
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.errors import CorruptBatch, InvalidRecordBatch
from odradek.wire.records.reader import ControlType, read_control_marker, read_records
from odradek.wire.schema.codec import decode_exact
from odradek.wire.schema.schema import Message
from odradek.wire.stored.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from odradek.wire.stored.metadata_records import (
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

NAMES = ("a", "b", "my.topic", "my_topic")


def some_image() -> MetadataImage:
    shard = ShardUnderTest(node_ids=(1, 2, 3))
    topics = tuple(CreatableTopic(name=name, num_partitions=3, replication_factor=2) for name in NAMES)
    shard.run(create_topics, CreateTopicsRequest(topics=topics))
    return shard.image


class Changes:
    """Draws records as a controller may write them, in a possible order."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.live: dict[UUID, tuple[str, int]] = {}
        self.number = 0

    def some(self, count: int) -> list[Message]:
        kinds = [self.topic, self.topic, self.removal, self.leader, self.config, self.broker, self.other]
        found: list[Message] = []
        while len(found) < count:
            self.number += 1
            found += self.chance.choice(kinds)()
        return found

    def topic(self) -> Iterator[Message]:
        free = [name for name in NAMES if name not in [each for each, _ in self.live.values()]]
        if free:
            topic_id, partitions = UUID(int=self.number), self.chance.randint(1, 3)
            self.live[topic_id] = (self.chance.choice(free), partitions)
            yield TopicRecord(name=self.live[topic_id][0], topic_id=topic_id)
            for index in range(partitions):
                yield PartitionRecord(partition_id=index, topic_id=topic_id, replicas=(1, 2), isr=(1,), leader=1)

    def removal(self) -> Iterator[Message]:
        if self.live:
            topic_id = self.chance.choice(list(self.live))
            del self.live[topic_id]
            yield RemoveTopicRecord(topic_id=topic_id)

    def leader(self) -> Iterator[Message]:
        if self.live:
            topic_id = self.chance.choice(list(self.live))
            index, leader = self.chance.randrange(self.live[topic_id][1]), self.chance.choice((1, 2))
            yield PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=(1, 2), leader=leader)

    def config(self) -> Iterator[Message]:
        value, name = self.chance.choice((None, "1", "2")), self.chance.choice(NAMES)
        yield ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name="k", value=value)

    def broker(self) -> Iterator[Message]:
        node = self.chance.randint(1, 3)
        if self.chance.random() < 0.3:
            yield UnregisterBrokerRecord(broker_id=node)
        else:
            yield RegisterBrokerRecord(broker_id=node, incarnation_id=UUID(int=self.number), broker_epoch=self.number)

    def other(self) -> Iterator[Message]:
        entity = (EntityData(entity_type="user", entity_name=self.chance.choice("xy")),)
        yield ClientQuotaRecord(entity=entity, key="k", value=float(self.number), remove=self.chance.random() < 0.3)
        yield ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=self.number * 1000)
        yield FeatureLevelRecord(name="group.version", feature_level=self.chance.choice((0, 1)))


def replayed(records: list[Message]) -> MetadataImage:
    delta = MetadataDelta()
    for offset, record in enumerate(records):
        replay(delta, record, offset, 4)
    return delta.apply()


def test_a_snapshot_has_kafkas_header_and_footer_around_the_records():
    image = some_image()
    batches = list(snapshot_batches(image, NOW_MS))
    headers = [next(iter_headers(batch)) for batch in batches]
    assert [header.is_control for header in headers] == [True, False, True]
    assert [header.base_offset for header in headers] == [0, *[each.next_offset for each in headers[:-1]]]
    assert {header.partition_leader_epoch for header in headers} == {image.epoch}
    first, last = read_control_marker(batches[0]), read_control_marker(batches[-1])
    assert (first.type, last.type) == (ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER)
    assert decode_exact(SnapshotHeaderRecord, 0, first.value or b"").last_contained_log_timestamp == NOW_MS
    assert decode_exact(SnapshotFooterRecord, 0, last.value or b"").version == 0


def image_of(batches: Iterable[bytes], end_offset: int, epoch: int) -> MetadataImage:
    reader = SnapshotReader()
    for batch in batches:
        reader.add(batch)
    return reader.image(end_offset, epoch)


def test_records_are_divided_into_batches():
    records: list[Message] = [ConfigRecord(resource_name=str(each), name="k", value="v") for each in range(2500)]
    sizes = [len(list(read_records(batch))) for batch in snapshot_batches(replayed(records), -1)]
    assert sizes == [1, RECORDS_PER_BATCH, RECORDS_PER_BATCH, 2500 - 2 * RECORDS_PER_BATCH, 1]


@pytest.mark.parametrize("seed", range(20))
def test_a_snapshot_and_a_difference_lead_to_the_image_that_a_replay_leads_to(seed: int):
    records = Changes(seed).some(120)
    after = replayed(records)
    assert image_of(snapshot_batches(after, NOW_MS), after.offset + 1, after.epoch) == after
    for length in (1, len(records) // 3, len(records) - 5):
        before = replayed(records[:length])
        delta = difference(before, after)
        assert delta.before is before
        assert delta.apply() == after


def test_a_difference_names_only_what_differs():
    before = some_image()
    topic = before.topics_by_name["a"]
    delta = MetadataDelta(before)
    change = PartitionChangeRecord(partition_id=1, topic_id=topic.topic_id, isr=(2,), leader=2)
    for record in (change, RemoveTopicRecord(topic_id=before.topics_by_name["b"].topic_id)):
        replay(delta, record, delta.offset + 1, 9)
    found = difference(before, delta.apply())
    assert found.topics.changed == {topic.topic_id: {1: None}}
    assert [each.name for each in found.topics.deleted_topics()] == ["b"]
    assert not found.brokers.changed
    assert not found.configs.changed


def refused(*batches: bytes) -> None:
    reader = SnapshotReader()
    *good, bad = batches
    for batch in good:
        reader.add(batch)
    with pytest.raises(InvalidRecordBatch):
        reader.add(bad)


def test_what_is_no_whole_snapshot_is_refused():
    header, records, footer = snapshot_batches(some_image(), NOW_MS)
    refused(records)
    refused(header, footer)
    refused(header, header)
    refused(header, records, footer, footer)
    refused(header, records[:-1] + bytes([records[-1] ^ 1]))
    refused(build_batch([SimpleRecord(None, b"x")]))
    with pytest.raises(CorruptBatch, match="footer"):
        image_of([header, records], 5, 1)


def test_a_record_about_what_is_not_there_is_refused():
    header, _, _ = snapshot_batches(some_image(), NOW_MS)
    change = PartitionChangeRecord(partition_id=1, topic_id=UUID(int=5), isr=(2,), leader=2)
    [record] = to_shard_records([change])
    refused(header, build_batch([SimpleRecord(None, record.value)], base_offset=1))
