"""Between Odradek and a real Kafka: same offsets towards Odradek, an offset map towards Kafka."""

import secrets

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from mirrored import Pair, fill, producer, raw, records, seen, transact

from compat_tests.brokers import Broker
from odradek.pipeline import mirror
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.mirroring.offset_map import MAP_TOPIC, read_maps
from odradek.pipeline.report import Report
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.wire_groups import WireGroups


@pytest.fixture
def real(kafka: Broker) -> Connection:
    return Connection(kafka.bootstrap)


@pytest.fixture
def topic() -> str:
    return f"t-{secrets.token_hex(4)}"


def copy(source: Connection, target: Connection, topic: str, **options) -> Report:
    report = mirror(source, target, topics=topic, shown=False, **options)
    assert report.complete, report.notes
    return report


def create(connection: Connection, topic: str, partitions: int, **config: str) -> None:
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result()


def test_from_kafka_the_offsets_and_bytes_stay(pair: Pair, real: Connection, topic: str) -> None:
    create(real, topic, 2, **{"retention.ms": "-1"})
    fill(real, topic, 300, partitions=2, compression_type="lz4")
    transact(real, topic, [b"no", b"no"], commit=False)
    transact(real, topic, [b"yes"], commit=True)
    with WireClient(real) as source, WireClient(pair.copy) as target:
        WireGroups(source).commit("g", {TopicPartition(topic, 0): 70})
        report = copy(real, pair.copy, topic, groups="g")
        assert WireGroups(target).committed("g") == {TopicPartition(topic, 0): 70}
    assert report.details["verbatim"] == [topic]
    assert report.written == 303
    for index in range(2):
        assert raw(pair.copy, TopicPartition(topic, index)) == raw(real, TopicPartition(topic, index))
    assert seen(pair.copy, topic, 2) == seen(real, topic, 2)
    with Cluster(pair.copy) as there:
        assert there.topic_config(topic) == {"retention.ms": "-1"}
    fill(real, topic, 10, first=300)
    assert copy(real, pair.copy, topic).written == 10
    assert seen(pair.copy, topic, 2) == seen(real, topic, 2)


def test_to_kafka_the_records_come_once_and_groups_go_on_with_them(pair: Pair, real: Connection, topic: str) -> None:
    pair.source.create_topic(topic, 2)
    fill(pair.origin, topic, 300, partitions=2)
    transact(pair.origin, topic, [b"no", b"no"], commit=False)
    transact(pair.origin, topic, [b"yes"], commit=True)
    assert copy(pair.origin, real, topic).written == 301
    fill(pair.origin, topic, 40, first=300)
    partition, at = TopicPartition(topic, 0), 152
    with WireClient(pair.origin) as source, WireClient(real) as target:
        WireGroups(source).commit("g", {partition: at})
        report = copy(pair.origin, real, topic, groups="g")
        translated = WireGroups(target).committed("g")[partition]
    assert (report.written, report.details["renumbered"]) == (40, [topic])
    assert records(real, topic, 2) == records(pair.origin, topic, 2)
    ours = [record for offset, record in seen(pair.origin, topic, 2)[0] if offset >= at]
    assert [record for offset, record in seen(real, topic, 2)[0] if offset >= translated] == ours
    assert copy(pair.origin, real, topic).written == 0


def test_every_offset_is_translated_to_the_record_that_it_names(pair: Pair, real: Connection, topic: str) -> None:
    pair.source.create_topic(topic)
    for number in range(5):
        fill(pair.origin, topic, 7, first=10 * number)
        transact(pair.origin, topic, [b"no"] * (number % 3), commit=False)
        if number % 2:
            copy(pair.origin, real, topic)
    copy(pair.origin, real, topic)
    ours, theirs = seen(pair.origin, topic)[0], seen(real, topic)[0]
    with WireClient(pair.origin) as client, Cluster(real) as there:
        client.topics(())
        known = read_maps(there, client.cluster_id)[TopicPartition(topic, 0)]
        end = ours[-1][0] + 1
    for offset in range(end + 5):
        translated = known.translate(offset)
        assert translated is not None
        assert [one for at, one in theirs if at >= translated] == [one for at, one in ours if at >= offset]


def test_a_broken_map_is_not_gone_on_with(pair: Pair, real: Connection, topic: str) -> None:
    from odradek.pipeline.errors import PipelineError

    pair.target.create_topic(MAP_TOPIC)
    broken = producer(pair.copy)
    broken.produce(MAP_TOPIC, b"no JSON", key=b"{")
    broken.flush()
    with Cluster(pair.copy) as there, pytest.raises(PipelineError, match="is not a mirror's"):
        read_maps(there, "any")
