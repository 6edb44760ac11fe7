"""Topics by id, and fetch sessions, on a running broker: a topic deleted and created again is another topic."""

from uuid import UUID

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, assert_serves, batch_of
from gateway_groups import delete_topic, find

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.records.batch import iter_headers
from odradek.wire.schema.types import ZERO_UUID

NO_TOPIC = UUID(int=0x77)
FOREVER_MS = 2**31 - 1


def id_of(client, topic):
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    return client.call(asked).topics[0].topic_id


def created_again(client, topic):
    """Deletes and creates a topic; returns its old and its new id."""
    old = id_of(client, topic)
    delete_topic(client, topic)
    client.create_topic(topic)
    return old, id_of(client, topic)


def by_id(*wanted, session=(0, -1), max_wait_ms=0):
    topics = [
        FetchTopic(
            topic_id=topic_id,
            partitions=(FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20),),
        )
        for topic_id, index, offset in wanted
    ]
    session_id, epoch = session
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=tuple(topics)
    )


def seen(response):
    assert response.error_code == 0
    return [
        (topic.topic_id, part.partition_index, ErrorCode(part.error_code).name, offsets(part))
        for topic in response.responses
        for part in topic.partitions
    ]


def offsets(part):
    return [header.base_offset for header in iter_headers(memoryview(bytes(part.records or b"")))]


def produce(client, topic_id, value=b"x", acks=-1):
    parts = (PartitionProduceData(index=0, records=memoryview(batch_of(value))),)
    data = (TopicProduceData(topic_id=topic_id, partition_data=parts),)
    [topic] = client.call(ProduceRequest(acks=acks, timeout_ms=9000, topic_data=data), 13).responses
    [part] = topic.partition_responses
    assert topic.topic_id == topic_id
    return ErrorCode(part.error_code).name, part.base_offset


def await_waiting(broker, topic):
    """Returns once a fetch waits on the topic's first partition."""
    replica = broker.broker.services.replicas.get(topic, 0)
    while not broker.in_trio(lambda: len(replica.watchers)):
        assert_serves(broker.address)


# Produce and Fetch


def test_records_for_the_old_topic_do_not_come_into_the_new(client, topic):
    assert produce(client, id_of(client, topic)) == ("NONE", 0)
    old, new = created_again(client, topic)
    assert old != new
    assert produce(client, old, b"late") == ("UNKNOWN_TOPIC_ID", -1)
    assert produce(client, new, b"new") == ("NONE", 0)
    assert produce(client, ZERO_UUID) == ("UNKNOWN_TOPIC_ID", -1)
    assert client.values(topic) == [b"new"]


def test_the_new_topic_is_not_read_at_the_old_ones_offsets(client, topic):
    old, new = created_again(client, topic)
    produce(client, new)
    answer = client.call(by_id((old, 0, 0), (new, 0, 0)), 17)
    assert seen(answer) == [(new, 0, "NONE", [0]), (old, 0, "UNKNOWN_TOPIC_ID", [])]


@pytest.mark.parametrize("version", [12, 18])
def test_a_fetch_that_waits_does_not_take_the_new_topic_for_the_old(shared_broker, client, topic, version):
    """Also with the name: the topic id is resolved when the fetch arrives."""
    old = id_of(client, topic)
    parts = (FetchPartition(partition=0, partition_max_bytes=1 << 20),)
    wanted = (FetchTopic(topic=topic, topic_id=old, partitions=parts),)
    with RawClient(shared_broker.address) as waiting:
        sent = waiting.send(FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1, topics=wanted), version)
        await_waiting(shared_broker, topic)
        _, new = created_again(client, topic)
        produce(client, new)
        [answered] = waiting.receive(sent).responses
    [part] = answered.partitions
    assert (part.error_code, offsets(part)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_a_session_knows_the_new_topic_from_the_old(client, topic):
    old = id_of(client, topic)
    begun = client.call(by_id((old, 0, 0), session=(0, 0)), 18)
    _, new = created_again(client, topic)
    produce(client, new)
    for epoch in (1, 2):
        answer = client.call(by_id(session=(begun.session_id, epoch)), 18)
        assert seen(answer) == [(old, 0, "INCONSISTENT_TOPIC_ID", [])]
    answer = client.call(by_id((new, 0, 0), session=(begun.session_id, 3)), 18)
    assert seen(answer) == [(old, 0, "INCONSISTENT_TOPIC_ID", []), (new, 0, "NONE", [0])]


# Committed offsets


def commit(client, group, topic_id, offset):
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = (OffsetCommitRequestTopic(topic_id=topic_id, partitions=(part,)),)
    request = OffsetCommitRequest(group_id=group, topics=topics)
    [answered] = client.call(request, 10).topics
    assert answered.topic_id == topic_id
    return ErrorCode(answered.partitions[0].error_code).name


def committed(client, group, topic, version):
    """`topic` is its id for version 10, else its name."""
    named = {"topic_id": topic} if version >= 10 else {"name": topic}
    asked = (OffsetFetchRequestTopics(**named, partition_indexes=(0,)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=asked),))
    [group] = client.call(request, version).groups
    [part] = group.topics[0].partitions
    return ErrorCode(part.error_code).name, part.committed_offset


@pytest.fixture
def group(client, topic):
    """A group whose coordinator is available."""
    name = f"g-{topic}"
    while find(client, name):
        pass
    return name


def test_an_offset_in_the_old_topic_is_none_in_the_new(client, topic, group):
    old = id_of(client, topic)
    assert commit(client, group, old, 7) == "NONE"
    assert committed(client, group, old, 10) == ("NONE", 7)
    _, new = created_again(client, topic)
    assert commit(client, group, old, 8) == "UNKNOWN_TOPIC_ID"
    assert committed(client, group, old, 10) == ("UNKNOWN_TOPIC_ID", -1)
    assert committed(client, group, new, 10) == ("NONE", -1)
    assert committed(client, group, topic, 9) == ("NONE", -1)
    assert commit(client, group, new, 3) == "NONE"
    assert committed(client, group, topic, 9) == ("NONE", 3)


def test_an_offset_that_the_deletion_missed_is_none_of_the_new_topics(shared_broker, client, topic, group, monkeypatch):
    """The state after a crash between the deletion of the topic and of the group's offset."""
    old = id_of(client, topic)
    commit(client, group, old, 7)
    monkeypatch.setattr(shared_broker.broker.services.groups, "topics_deleted", lambda names: None)
    _, new = created_again(client, topic)
    assert committed(client, group, new, 10) == ("NONE", -1)
    assert committed(client, group, topic, 9) == ("NONE", -1)


# Sessions on a broker


def test_sessions_do_not_outlive_the_broker(tmp_path, broker_log):
    url = f"lmdb://{tmp_path}/data"
    with ThreadBroker(url) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        begun = client.call(by_id((id_of(client, "t"), 0, 0), session=(0, 0)), 18)
        assert begun.session_id > 0
    with ThreadBroker(url) as broker, RawClient(broker.address) as client:
        answer = client.call(by_id(session=(begun.session_id, 1)), 18)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("slots", [0, 1])
def test_there_are_as_many_sessions_as_slots(broker_log, slots):
    with ThreadBroker(max_incremental_fetch_session_cache_slots=slots) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        topic_id = id_of(client, "t")
        begun = [client.call(by_id((topic_id, 0, 0), session=(0, 0)), 18).session_id for _ in range(3)]
        assert [each > 0 for each in begun] == [number < slots for number in range(3)]


def test_a_fetch_in_a_session_waits_for_what_it_does_not_name(shared_broker, client, topic):
    topic_id = id_of(client, topic)
    begun = client.call(by_id((topic_id, 0, 0), session=(0, 0)), 18)
    with RawClient(shared_broker.address) as waiting:
        sent = waiting.send(by_id(session=(begun.session_id, 1), max_wait_ms=FOREVER_MS), 18)
        await_waiting(shared_broker, topic)
        produce(client, topic_id)
        assert seen(waiting.receive(sent)) == [(topic_id, 0, "NONE", [0])]


def test_leases_of_an_answer_that_is_refused_are_given_back(shared_broker, client, topic):
    """Two fetches of one session at once: the earlier one is refused at its end, and must release its leases."""
    topic_id = id_of(client, topic)
    begun = client.call(by_id((topic_id, 0, 0), session=(0, 0)), 18)
    with RawClient(shared_broker.address) as waiting:
        sent = waiting.send(by_id(session=(begun.session_id, 1), max_wait_ms=FOREVER_MS), 18)
        await_waiting(shared_broker, topic)
        client.call(by_id(session=(begun.session_id, 2)), 18)
        produce(client, topic_id)
        answer = waiting.receive(sent)
        assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())
        waiting.call(MetadataRequest(topics=()))  # answered after the earlier answer is sent
    replica = shared_broker.broker.services.replicas.get(topic, 0)
    assert shared_broker.in_trio(lambda: replica.leases) == 0


# Metadata, DeleteTopics, ListOffsets


def metadata(client, version, *asked):
    topics = tuple([MetadataRequestTopic(topic_id=topic_id, name=name) for topic_id, name in asked])
    answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)
    found = [(topic.topic_id, topic.name, ErrorCode(topic.error_code).name) for topic in answer.topics]
    return len(answer.brokers), found


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id(client, topic, version):
    topic_id = id_of(client, topic)
    assert metadata(client, version, (topic_id, None)) == (1, [(topic_id, topic, "NONE")])
    assert metadata(client, version, (NO_TOPIC, None)) == (1, [(NO_TOPIC, None, "UNKNOWN_TOPIC_ID")])
    mixed = metadata(client, version, (topic_id, None), (ZERO_UUID, "nowhere"), (topic_id, None))
    assert mixed == (1, [(topic_id, topic, "NONE")]), "a request with ids is one by ids"
    assert metadata(client, version, (topic_id, "nowhere")) == (1, [(topic_id, topic, "NONE")])
    many_names = [(topic_id, str(number)) for number in range(10)]
    assert metadata(client, version, *many_names) == (1, [(topic_id, topic, "NONE")])
    assert metadata(client, version, (ZERO_UUID, None)) == (0, [(ZERO_UUID, "", "INVALID_REQUEST")])


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_id_is_refused_in_versions_that_only_return_ids(client, topic, version):
    topic_id = id_of(client, topic)
    assert metadata(client, version, (topic_id, topic)) == (0, [(topic_id, topic, "INVALID_REQUEST")])
    assert metadata(client, version, (ZERO_UUID, None)) == (0, [(ZERO_UUID, "", "INVALID_REQUEST")])
    assert metadata(client, version, (ZERO_UUID, topic)) == (1, [(topic_id, topic, "NONE")])


def delete(client, *asked):
    topics = tuple([DeleteTopicState(topic_id=topic_id, name=name) for topic_id, name in asked])
    answer = client.call(DeleteTopicsRequest(topics=topics, timeout_ms=9000), 6)
    return {(one.topic_id, one.name): ErrorCode(one.error_code).name for one in answer.responses}


def test_delete_by_id(client, topic):
    old, new = created_again(client, topic)
    assert delete(client, (old, None), (NO_TOPIC, None)) == {
        (old, None): "UNKNOWN_TOPIC_ID",
        (NO_TOPIC, None): "UNKNOWN_TOPIC_ID",
    }
    assert id_of(client, topic) == new
    assert delete(client, (new, None)) == {(new, topic): "NONE"}
    assert id_of(client, topic) == ZERO_UUID


def test_deletion_by_id_on_a_disk_that_fails(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        broker.env.fail_next_write()
        assert delete(client, (id_of(client, "t"), None), (ZERO_UUID, "u")) == {
            (id_of(client, "t"), None): "KAFKA_STORAGE_ERROR",
            (ZERO_UUID, "u"): "KAFKA_STORAGE_ERROR",
        }


def list_offsets(client, topic, version, *timestamps):
    parts = tuple([ListOffsetsPartition(partition_index=0, timestamp=each) for each in timestamps])
    request = ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic, partitions=parts),))
    [answered] = client.call(request, version).topics
    return [(ErrorCode(part.error_code).name, part.offset) for part in answered.partitions]


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)])
def test_special_timestamps_are_known_from_a_version_on(client, topic, timestamp, since):
    for version in range(1, 12):
        [(error, offset)] = list_offsets(client, topic, version, timestamp)
        assert error == ("UNSUPPORTED_VERSION" if version < since else "NONE")
        assert offset == (0 if version >= since and timestamp in (-1, -2, -4) else -1)


def test_a_partition_asked_for_twice_is_an_error(client, topic):
    assert list_offsets(client, topic, 11, -1, -2) == [("INVALID_REQUEST", -1)]
