"""Retention and compaction leave the same offsets as on a real Kafka."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparison import Comparison
from compat_tests.every_version import Stage, Wire
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records

WAIT_LIMIT_S = 60
SEGMENT = {"segment.bytes": "1048576", "retention.ms": "-1"}
COMPACT = {**SEGMENT, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
LARGE = b"x" * 200_000
TOPIC_RESOURCE = 2


class Topic:
    """A topic with one partition on one broker, filled by raw requests."""

    def __init__(self, wire: Wire, name: str, configs: dict[str, str]) -> None:
        self._wire = wire
        self.name = Stage(wire, name, "1").topic(partitions=1, configs=configs)

    def put(self, *records: tuple[bytes, bytes | None], age_ms: int = 0, **producer: Any) -> None:
        stamp = time.time_ns() // 1_000_000 - age_ms
        batch = build_batch([SimpleRecord(key, value, stamp) for key, value in records], **producer)
        part = PartitionProduceData(index=0, records=memoryview(batch))
        topic = TopicProduceData(name=self.name, partition_data=(part,))
        request = ProduceRequest(acks=-1, timeout_ms=9000, topic_data=(topic,))
        [answered] = self._wire.call(ApiKey.PRODUCE, 9, request).responses
        assert answered.partition_responses[0].error_code == 0, answered

    def alter(self, **configs: str) -> None:
        changed = tuple(AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items())
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=self.name, configs=changed)
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        [answer] = self._wire.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert answer.error_code == 0, answer

    def producer_id(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while (answer := self._wire.call(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code:
            time.sleep(0.1)
        return answer.producer_id

    def offset(self, timestamp: int) -> int:
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=self.name, partitions=(part,)),))
        return self._wire.call(ApiKey.LIST_OFFSETS, 7, request).topics[0].partitions[0].offset

    def left(self) -> dict[str, Any]:
        """Log start and end offset, and the offset, key and size of every record."""
        start, end = self.offset(-2), self.offset(-1)
        records: list[tuple[int, bytes | None, int]] = []
        offset = start
        while offset < end:
            part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(topics=(FetchTopic(topic=self.name, partitions=(part,)),), max_wait_ms=100)
            [answered] = self._wire.call(ApiKey.FETCH, 11, request).responses
            if answered.partitions[0].error_code:
                return self.left()  # the log start offset has moved meanwhile
            chunk = memoryview(bytes(answered.partitions[0].records or b""))
            before = offset
            for header in iter_headers(chunk, allow_partial_tail=True):
                offset = header.next_offset
                records += [(r.offset, r.key, len(r.value or b"")) for r in read_records(chunk, header)]
            if offset == before:
                break
        return {"start": start, "end": end, "records": sorted({each for each in records if each[0] >= start})}


def expect(topic: Topic, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Waits until the broker has cleaned up and nothing changes any more; returns what is left."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    last: dict[str, Any] = {}
    while time.monotonic() < deadline:
        now = topic.left()
        if now == last and done(now):
            return now
        last = now
        time.sleep(1.5)
    pytest.fail(f"not cleaned up in {WAIT_LIMIT_S} s: {last}")


def by_size(topic: Topic) -> dict[str, Any]:
    for _ in range(22):
        topic.put((b"k", LARGE))
    topic.alter(retention_bytes="2300000")
    return expect(topic, lambda left: left["start"] > 0)


def by_time(topic: Topic) -> dict[str, Any]:
    for age_ms in [9_000_000] * 7 + [0] * 3 + [9_000_000] * 4:
        topic.put((b"k", LARGE), age_ms=age_ms)
    topic.alter(retention_ms="3600000")
    return expect(topic, lambda left: left["start"] > 0)


def all_by_time(topic: Topic) -> dict[str, Any]:
    for _ in range(7):
        topic.put((b"k", LARGE), age_ms=9_000_000)
    topic.alter(retention_ms="3600000")
    expect(topic, lambda left: left["start"] == left["end"])
    topic.put((b"k", LARGE))
    return expect(topic, lambda left: left["end"] == 8)


def newest_of_each_key(topic: Topic) -> dict[str, Any]:
    for number in range(30):
        topic.put((b"k%d" % (number % 7), LARGE), (b"always", b"%d" % number), (b"n%d" % number, b"once"))
    topic.alter(min_cleanable_dirty_ratio="0")
    return expect(topic, lambda left: len(left["records"]) < 70)


def tombstones(topic: Topic) -> dict[str, Any]:
    topic.alter(delete_retention_ms="0")
    for number in range(8):
        topic.put((b"a%d" % number, b"v"), (b"pad%d" % number, LARGE))
    for number in range(4):
        topic.put((b"a%d" % number, None))
    for number in range(12):
        topic.put((b"fill%d" % (number % 3), LARGE))
    first = expect(topic, lambda left: len(left["records"]) < 32)
    for number in range(12):
        topic.put((b"more%d" % (number % 3), LARGE))
    second = expect(topic, lambda left: not any(size == 0 for _, _, size in left["records"]))
    return {"first end": first["end"], **second}


def of_producers(topic: Topic) -> dict[str, Any]:
    identity = topic.producer_id()
    for number in range(6):
        topic.put((b"p", b"%d" % number), producer_id=identity, producer_epoch=0, base_sequence=number)
    for number in range(14):
        topic.put((b"p", LARGE), (b"q%d" % (number % 2), b"v"))
    left = expect(topic, lambda left: len(left["records"]) < 20)
    topic.put((b"p", b"5"), producer_id=identity, producer_epoch=0, base_sequence=5)  # a retry: answered, not written
    return left | {"end after retry": topic.offset(-1)}


def compact_and_delete(topic: Topic) -> dict[str, Any]:
    topic.alter(cleanup_policy="compact,delete")
    for number in range(20):
        topic.put((b"k%d" % (number % 12), LARGE))
    expect(topic, lambda left: len(left["records"]) < 20)
    topic.alter(retention_bytes="1200000")
    return expect(topic, lambda left: left["start"] > 0)


CASES: list[tuple[Callable[[Topic], dict[str, Any]], dict[str, str]]] = [
    (by_size, SEGMENT),
    (by_time, SEGMENT),
    (all_by_time, SEGMENT),
    (newest_of_each_key, COMPACT | {"min.cleanable.dirty.ratio": "1"}),
    (tombstones, COMPACT),
    (of_producers, COMPACT),
    (compact_and_delete, COMPACT),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("case", "configs"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_same_offsets_are_left(
    comparison: Comparison, case: Callable[[Topic], dict[str, Any]], configs: dict[str, str]
) -> None:
    assert comparison.kafka is not None, "no real Kafka to compare with"
    name = f"cleanup-{case.__name__.replace('_', '-')}-{secrets.token_hex(3)}"
    left: list[dict[str, Any]] = []
    for broker in (comparison.odradek, comparison.kafka):
        with Wire(broker.bootstrap) as wire:
            left.append(case(Topic(wire, name, configs)))
    ours, kafkas = left
    assert ours == kafkas
