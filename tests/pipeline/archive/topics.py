"""Topics for the tests of archives, and the expected content of their tables."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.topic_partition import LATEST, TopicPartition
from odradek.pipeline.wire_client import READ_COMMITTED, WireClient

TIME_MS = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}


def create(connection: Connection, topic: str, partitions: int = 1, **config: str) -> None:
    with Cluster(connection) as cluster:
        cluster.create_topic(
            topic, partitions, KEPT | {name.replace("_", "."): value for name, value in config.items()}
        )


def set_at_broker(connection: Connection, name: str, value: str) -> None:
    """Changes a setting of the only broker, node 1."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient(connection.for_librdkafka())
    admin.incremental_alter_configs([broker])[broker].result()


def produce(connection: Connection, topic: str, values: Iterable[bytes | None], partition: int = -1) -> None:
    """Produces records one minute apart, with three headers, two of which have the same name."""
    producer = Producer({**connection.for_librdkafka(), "linger.ms": 20})
    headers = [("h", b"1"), ("h", b""), ("n", None)]
    for number, value in enumerate(values):
        time_ms = TIME_MS + number * 60_000
        producer.produce(
            topic, value, key=b"k%d" % (number % 7), partition=partition, timestamp=time_ms, headers=headers
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def produce_transactions(connection: Connection, topic: str, fates: Sequence[bool], records: int = 5) -> None:
    """One transaction per value in partition 0, committed or aborted; returns when all have their markers."""
    producer = Producer({**connection.for_librdkafka(), "transactional.id": f"{topic}-writer"})
    producer.init_transactions()
    for number, is_committed in enumerate(fates):
        producer.begin_transaction()
        for record in range(records):
            producer.produce(topic, b"in transaction %d %d" % (number, record), partition=0)
        producer.flush()
        producer.commit_transaction() if is_committed else producer.abort_transaction()
    await_markers(connection, topic)


def await_markers(connection: Connection, topic: str) -> None:
    """Waits until all ended transactions have their markers, which are written after the answer."""
    with WireClient(connection) as client:
        partitions = [TopicPartition(topic, index) for index in range(len(client.topic(topic).leaders))]
        while client.list_offsets(partitions, LATEST) != client.list_offsets(partitions, LATEST, READ_COMMITTED):
            time.sleep(0.05)


def rows(frame: Any, *columns: str) -> list[Any]:
    """All rows in the order of (topic, partition, offset)."""
    return sorted(map(tuple, frame.select("topic", "partition", "offset", *columns).collect()))


def counts_by_offset(frame: Any) -> Counter[tuple[str, int, int]]:
    """The number of rows for each (topic, partition, offset)."""
    return Counter(map(tuple, frame.select("topic", "partition", "offset").collect()))


def topic_rows(spark: Any, connection: Connection, topic: str) -> list[Any]:
    """The rows that `format("kafka")` reads from the topic, committed records only."""
    frame = (
        spark.read.format("kafka")
        .options(**connection.for_spark())
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    return rows(frame, *COLUMNS)


COLUMNS = ("timestamp", "timestampType", "key", "value", "headers")
