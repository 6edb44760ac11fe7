"""Topics are created, extended, changed and deleted, and every change is in force when its answer arrives."""

from itertools import pairwise

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, assert_serves, batch_of, only, produce_request
from gateway_groups import commit_error, committed, delete_topic, find

from odradek.storage_backends.faulty import FaultyPartition
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.records.batch import TimestampType

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


def metadata_of(client, name, version=None, **fields):
    [found] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=name),), **fields), version).topics
    return found


def alter(client, name, value, topic=None, operation=SET):
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    kind = BROKER if topic is None else TOPIC
    resource = AlterConfigsResource(resource_type=kind, resource_name=topic or "", configs=(config,))
    [answer] = client.call(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert answer.error_code == 0, answer


# Auto-creation


def test_metadata_creates_topics_with_the_brokers_defaults(broker_log):
    with ThreadBroker(num_partitions=3) as broker, RawClient(broker.address) as client:
        found = metadata_of(client, "auto", allow_auto_topic_creation=True)
        assert (found.error_code, len(found.partitions)) == (0, 3)
        assert client.produce("auto", batch_of(b"x"), 2).base_offset == 0


@pytest.mark.parametrize("version", range(4))
def test_metadata_below_4_always_creates(client, version):
    """These versions have no field to forbid it."""
    assert metadata_of(client, f"auto-{version}", version).error_code == 0


def test_metadata_does_not_create_when_the_client_does_not_want_it(client):
    found = metadata_of(client, "unwanted", allow_auto_topic_creation=False)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce("unwanted", batch_of(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_does_not_create_when_the_broker_does_not_want_it(broker_log):
    with ThreadBroker(auto_create_topics_enable="false") as broker, RawClient(broker.address) as client:
        found = metadata_of(client, "t", allow_auto_topic_creation=True)
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert find(client, "g") == 0  # internal topics are created in any case
        assert metadata_of(client, "__consumer_offsets").is_internal


def test_asking_for_all_topics_creates_none(client):
    names = [topic.name for topic in client.call(MetadataRequest(topics=None)).topics]
    assert [topic.name for topic in client.call(MetadataRequest(topics=None)).topics] == names
    assert client.call(MetadataRequest(topics=())).topics == ()
    assert len(client.call(MetadataRequest(topics=()), 0).topics) == len(names)  # version 0 has no null


# Delete and create again


@pytest.mark.parametrize("storage", ["memory", "lmdb"])
def test_a_topic_made_again_shows_nothing_of_the_old_one(tmp_path, broker_log, storage):
    url = "memory://" if storage == "memory" else f"lmdb://{tmp_path}/data"
    with ThreadBroker(url) as broker:
        with RawClient(broker.address) as client:
            assert find(client, "g") == 0
            ids = []
            for generation in range(5):
                client.create_topic("t")
                ids.append(metadata_of(client, "t").topic_id)
                assert client.values("t") == []
                assert committed(client, "g") == {}
                for n in range(5):
                    answer = client.produce("t", batch_of(b"%d.%d" % (generation, n)))
                    assert (answer.error_code, answer.base_offset) == (0, n)
                assert commit_error(client, "g", 3) == 0
                assert client.values("t") == [b"%d.%d" % (generation, n) for n in range(5)]
                if generation < 4:
                    delete_topic(client, "t")
                    assert client.fetch("t").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    assert client.produce("t", batch_of(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert all(before != after for before, after in pairwise(ids))
        if storage == "lmdb":
            broker.stop()
            broker.start()
            with RawClient(broker.address) as client:
                assert client.values("t") == [b"4.%d" % n for n in range(5)]
                assert committed(client, "g") == {("t", 0): 3}


def test_a_deleted_topic_stays_deleted_over_a_restart(tmp_path, broker_log):
    with ThreadBroker(f"lmdb://{tmp_path}/data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t")
            client.produce("t", batch_of(b"x"))
            delete_topic(client, "t")
        broker.stop()
        broker.start()
        with RawClient(broker.address) as client:
            assert client.fetch("t").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            client.create_topic("t")
            assert client.values("t") == []


def test_a_topic_deleted_while_its_log_is_being_opened_stays_deleted(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client, RawClient(broker.address) as producer:
        client.create_topic("t")
        broker.env.hold()
        sent = producer.send(produce_request("t", batch_of(b"late")))
        broker.env.await_held()
        broker.env.faults.slow = 0.0  # only the opening is held
        delete_topic(client, "t")
        client.create_topic("t")
        broker.env.release()
        assert only(producer.receive(sent)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.values("t") == []
        [found] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),))).topics
        while len(logs := logs_of(broker, "t")) > 1:
            assert_serves(broker.address)
        assert [key.topic_id for key in logs] == [found.topic_id]


def logs_of(broker, name):
    store = broker.broker.services.replicas.resources.store
    return [key for key in store.partitions() if key.topic == name]


def test_creating_a_topic_again_is_refused(client, topic):
    request = CreateTopicsRequest(topics=(CreatableTopic(name=topic, num_partitions=1, replication_factor=-1),))
    assert client.call(request).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


# More partitions


def test_new_partitions_are_used_at_once(client, topic):
    client.produce(topic, batch_of(b"old"))
    assert client.fetch(topic, partition=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    more = CreatePartitionsTopic(name=topic, count=4, assignments=None)
    [created] = client.call(CreatePartitionsRequest(topics=(more,))).results
    assert created.error_code == 0
    assert len(metadata_of(client, topic).partitions) == 4
    for part in range(1, 4):
        assert client.fetch(topic, partition=part).error_code == 0
        assert client.produce(topic, batch_of(b"new %d" % part), part).base_offset == 0
        assert client.values(topic, part) == [b"new %d" % part]
    assert client.values(topic) == [b"old"]


# Configs act at once


def test_max_message_bytes_acts_at_once(client, topic):
    large = batch_of(b"x" * 5000)
    assert client.produce(topic, large).error_code == 0
    alter(client, "max.message.bytes", "4000", topic)
    assert client.produce(topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce(topic, batch_of(b"small")).error_code == 0
    alter(client, "max.message.bytes", None, topic, DELETE)
    assert client.produce(topic, large).error_code == 0


def test_a_brokers_default_acts_at_once_on_topics_without_their_own(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("own", max_message_bytes="100000")
        client.create_topic("default")
        large = batch_of(b"x" * 5000)
        for name in ("own", "default"):
            assert client.produce(name, large).error_code == 0
        alter(client, "message.max.bytes", "4000")
        assert client.produce("default", large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert client.produce("own", large).error_code == 0


def test_message_timestamp_type_acts_at_once(client, topic):
    alter(client, "retention.ms", "-1", topic)  # the records are of 1970
    answer = client.produce(topic, batch_of(b"mine", timestamp_ms=1000))
    assert answer.log_append_time_ms == -1
    alter(client, "message.timestamp.type", "LogAppendTime", topic)
    answer = client.produce(topic, batch_of(b"yours", timestamp_ms=1000))
    assert answer.log_append_time_ms > 1_700_000_000_000
    (mine, [first]), (yours, [second]) = client.fetch_all(topic)  # this checks the CRC of both
    assert (mine.timestamp_type, first.timestamp_ms) == (TimestampType.CREATE_TIME, 1000)
    assert (yours.timestamp_type, second.timestamp_ms) == (TimestampType.LOG_APPEND_TIME, answer.log_append_time_ms)


def test_configs_survive_a_restart(tmp_path, broker_log):
    with ThreadBroker(f"lmdb://{tmp_path}/data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t")
            alter(client, "max.message.bytes", "4000", "t")
            alter(client, "message.max.bytes", "3000")
            client.create_topic("u")
        broker.stop()
        broker.start()
        with RawClient(broker.address) as client:
            codes = [client.produce(name, batch_of(b"x" * 3500)).error_code for name in "tu"]
            assert codes == [0, ErrorCode.MESSAGE_TOO_LARGE]


# Pages


def test_topics_are_described_in_pages(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        sizes = {"a": 3, "b": 2, "c": 4, "d": 1}
        for name, partitions in sizes.items():
            client.create_topic(name, partitions)
        for limit in (1, 2, 3, 5, 100):
            seen, pages, cursor = [], 0, None
            while True:
                request = DescribeTopicPartitionsRequest(response_partition_limit=limit, cursor=cursor)
                page = client.call(request)
                parts = [(topic.name, part.partition_index) for topic in page.topics for part in topic.partitions]
                assert len(parts) <= limit
                seen += parts
                pages += 1
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert seen == [(name, index) for name, partitions in sizes.items() for index in range(partitions)]
            assert pages >= 10 / limit


def test_a_page_begins_at_the_cursor_even_when_its_topic_is_deleted(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        for name in "abc":
            client.create_topic(name, 2)
        page = client.call(DescribeTopicPartitionsRequest(response_partition_limit=3))
        assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("b", 1)
        delete_topic(client, "b")
        rest = client.call(DescribeTopicPartitionsRequest(response_partition_limit=3, cursor=page.next_cursor))
        assert [(topic.name, len(topic.partitions)) for topic in rest.topics] == [("c", 2)]


def test_missing_topics_are_described_with_their_error(client, topic):
    request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name="missing"), TopicRequest(name=topic)))
    errors = {one.name: one.error_code for one in client.call(request).topics}
    assert errors == {"missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic: 0}


# Producer ids


@pytest.mark.parametrize("storage", ["memory", "lmdb"])
def test_a_producer_id_is_never_given_twice(tmp_path, broker_log, storage):
    with ThreadBroker("memory://" if storage == "memory" else f"lmdb://{tmp_path}/data") as broker:
        given = []
        for _ in range(1 if storage == "memory" else 4):
            with RawClient(broker.address) as client:
                for _ in range(1200 if storage == "memory" else 20):  # more than a block of producer ids
                    answer = client.call(InitProducerIdRequest(transactional_id=None))
                    assert (answer.error_code, answer.producer_epoch) == (0, 0)
                    given.append(answer.producer_id)
            broker.stop()
            broker.start()
        assert len(set(given)) == len(given)
        assert given == sorted(given)


# Settings of open logs


UNLIMITED = str(2**63 - 1)
SETTINGS = [
    ("flush.messages", "1"),
    ("flush.messages", UNLIMITED),
    ("flush.messages", "1000"),  # the number of records that may be lost; none is
    ("flush.messages", UNLIMITED),
    ("flush.ms", "1000"),
]


def test_a_change_of_flush_messages_applies_to_the_next_commit(broker_log, monkeypatch):
    synced = []
    really, at_once = FaultyPartition.commit, FaultyPartition.commit_at_once

    def commit(self, writes, *, sync):
        if self.key.topic == "t":
            synced.append(sync)
        really(self, writes, sync=sync)

    def commit_at_once(self, writes):
        if self.key.topic == "t":
            synced.append(False)
        return at_once(self, writes)

    monkeypatch.setattr(FaultyPartition, "commit", commit)
    monkeypatch.setattr(FaultyPartition, "commit_at_once", commit_at_once)
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t", flush_messages=UNLIMITED, retention_ms="-1")
        client.produce("t", batch_of(b"opens the log"))
        for name, value in SETTINGS:
            alter(client, name, value, topic="t")
            client.produce("t", batch_of(value.encode()))
    assert synced[-len(SETTINGS) - 1 :] == [False, True, False, True, False, True]
