"""Tables made by hand, and topics read by another client than the one under test."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.topic_partition import EARLIEST, LATEST
from odradek.pipeline.topic_partition import TopicPartition as Place

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CREATE_TIME, LOG_APPEND_TIME = 0, 1
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class Archived(NamedTuple):
    """One row of a table, and the expected fields of the consumed record."""

    partition: int
    offset: int
    value: bytes | None = b"v"
    key: bytes | None = None
    timestamp_ms: int = 1_000
    headers: Sequence[tuple[str, bytes | None]] = ()
    kind: int = CREATE_TIME


def write_table(path: Path, rows: Iterable[Archived], topic: str = "source", *, parts: int = 3) -> Path:
    """A folder of Parquet files with the rows distributed and in reverse order."""
    path.mkdir(exist_ok=True)
    listed = list(rows)
    for part in range(parts):
        pq.write_table(table_of(reversed(listed[part::parts]), topic), path / f"{topic}-{part}.parquet")
    return path


def table_of(rows: Iterable[Archived], topic: str = "source") -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist([_row(one, topic) for one in rows], SCHEMA)


def _row(one: Archived, topic: str) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": EPOCH + timedelta(milliseconds=one.timestamp_ms),
        "timestampType": one.kind,
        "key": one.key,
        "value": one.value,
        "headers": [{"key": name, "value": value} for name, value in one.headers] or None,
    }


def records_of(
    bootstrap: str, topic: str, partitions: int = 1, *, isolation: str = "read_uncommitted"
) -> list[Archived]:
    """All records that a consumer gets, by partition and offset."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "message.max.bytes": 50_000_000,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        return [one for index in range(partitions) for one in _partition(consumer, bootstrap, topic, index)]
    finally:
        consumer.close()


def _partition(consumer: Consumer, bootstrap: str, topic: str, index: int) -> list[Archived]:
    start, _ = bounds_of(bootstrap, topic, index)
    consumer.assign([TopicPartition(topic, index, start)])
    found: list[Archived] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "no answer"
        if message.error():
            return found
        kind, timestamp_ms = message.timestamp()
        headers = tuple(message.headers() or ())
        found.append(Archived(index, message.offset(), message.value(), message.key(), timestamp_ms, headers, kind - 1))


def bounds_of(bootstrap: str, topic: str, index: int = 0) -> tuple[int, int]:
    """The log start offset and log end offset of a partition."""
    partition = Place(topic, index)
    with Cluster(Connection(bootstrap)) as cluster:
        return cluster.offsets({partition: EARLIEST})[partition], cluster.offsets({partition: LATEST})[partition]


ODD = [
    Archived(0, 0, b"v", b"k", 0),
    Archived(0, 1, b"", b"", 1),
    Archived(0, 2, None, None, -1),
    Archived(0, 3, None, b"tombstone", -5_000_000),
    Archived(0, 4, b"v", None, 2**41, [("same", b"1"), ("same", b"2"), ("null", None), ("empty", b""), ("ľ", b"\xff")]),
    Archived(0, 5, b"x" * 5_000_000, b"large", 1_700_000_000_123),
    Archived(0, 6, bytes(range(256)), b"\x00", 7),
]
"""Edge cases, at offsets without gaps."""
GAPS = [Archived(1, offset, b"%d" % offset) for offset in (3, 4, 9, 10, 11, 40)]
"""A partition whose beginning was deleted, with markers or compacted records in between."""
