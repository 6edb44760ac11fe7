"""Two clusters, functions that fill one, and comparisons: raw batches, and records as consumers get them."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from odradek.pipeline.connection import Connection
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.testing import TestBroker
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch

TIME_MS = int(time.time() * 1000)  # noqa: TID251 - recent: retention would delete old records


class Pair(NamedTuple):
    """The source and the target of a copy."""

    source: TestBroker
    target: TestBroker
    origin: Connection
    copy: Connection


class Seen(NamedTuple):
    """A record as a consumer of committed records gets it, without its offset."""

    key: bytes | None
    value: bytes | None
    timestamp: tuple[int, int]
    headers: tuple[tuple[str, bytes | None], ...]


def producer(connection: Connection, **settings: str | int) -> Producer:
    """A producer that sends batches quickly; settings with underscores for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({**connection.for_librdkafka(), "linger.ms": 5, **named})


def fill(
    connection: Connection, topic: str, count: int, *, partitions: int = 1, first: int = 0, **settings: str | int
) -> None:
    """Produces `count` records with distinct keys, headers and timestamps."""
    with_settings = producer(connection, **settings)
    for number in range(first, first + count):
        with_settings.produce(
            topic,
            key=None if number % 7 == 3 else b"key %d" % number,
            value=None if number % 11 == 5 else b"value %d " % number * 3,
            partition=number % partitions,
            timestamp=TIME_MS + number,
            headers=[("n", b"%d" % number), ("none", None)] if number % 2 else None,
        )
    assert with_settings.flush(30) == 0


def transact(connection: Connection, topic: str, values: Iterable[bytes], *, commit: bool) -> None:
    """Produces in one transaction."""
    transactional = producer(connection, transactional_id=f"tx-{topic}")
    transactional.init_transactions(30)
    transactional.begin_transaction()
    for value in values:
        transactional.produce(topic, value, partition=0)
    transactional.flush(30)
    if commit:
        transactional.commit_transaction(30)
    else:
        transactional.abort_transaction(30)


def batch(offset: int, *values: bytes, **fields: int | bool) -> bytes:
    """A batch at an offset, as in a compacted log."""
    records = [SimpleRecord(b"k", value, TIME_MS) for value in values]
    return build_batch(records, base_offset=offset, **fields)  # pyright: ignore[reportArgumentType]


def extent(connection: Connection, partition: TopicPartition) -> tuple[int, int]:
    """The log start offset and log end offset."""
    with WireClient(connection) as client:
        return client.list_offsets([partition], EARLIEST)[partition], client.list_offsets([partition], LATEST)[
            partition
        ]


def raw(connection: Connection, partition: TopicPartition) -> bytes:
    """Every batch of the log, byte for byte except for the leader epochs."""
    found = bytearray()
    at, end = extent(connection, partition)
    with WireClient(connection) as client:
        while at < end:
            one = client.fetch({partition: at}, max_bytes=1 << 20, partition_max_bytes=1 << 20, max_wait_ms=0)[
                partition
            ]
            assert one.error == 0
            before = at
            for header in iter_headers(one.records, allow_partial_tail=True):
                content = bytes(one.records[header.position : header.end_position])
                found += content[:12] + bytes(4) + content[16:]
                at = header.next_offset
            assert at > before, f"{partition} has a gap at its end"
    return bytes(found)


def seen(connection: Connection, topic: str, partitions: int = 1) -> dict[int, list[tuple[int, Seen]]]:
    """Offsets and records of each partition, as a consumer of committed records gets them."""
    settings = {
        **connection.for_librdkafka(),
        "group.id": "reader",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    found: dict[int, list[tuple[int, Seen]]] = {index: [] for index in range(partitions)}
    consumer.assign([KafkaTopicPartition(topic, index, 0) for index in range(partitions)])
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None, "nothing comes"
        if message.error() is None:
            record = Seen(message.key(), message.value(), message.timestamp(), tuple(message.headers() or ()))
            found[message.partition()].append((message.offset(), record))
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()  # noqa: SLF001
            ended.add(message.partition())
    consumer.close()
    return found


def records(connection: Connection, topic: str, partitions: int = 1) -> dict[int, list[Seen]]:
    """The records of `seen`, without offsets."""
    return {index: [record for _, record in each] for index, each in seen(connection, topic, partitions).items()}
