"""confluent-kafka as a member of a consumer group of the new protocol (`group.protocol=consumer`, KIP-848).

Session time-out and heartbeat interval are set by the broker, and rebalances are reported incrementally.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from compat_tests.clients.librdkafka import consumer_of, follow, messages


def member(bootstrap: str, group: str, **extra: Any) -> Consumer:
    """A consumer that has not joined yet; in `extra`, `_` stands for `.`."""
    return consumer_of(bootstrap, group_id=group, group_protocol="consumer", **extra)


def consume_group(bootstrap: str, group: str, topic: str, count: int) -> dict[str, Any]:
    """Reads `count` records as the group's only member, and commits them. A topic with a leading ^ is an expression."""
    consumer = member(bootstrap, group)
    try:
        consumer.subscribe([topic])
        found = messages(consumer, count)
        ends = {(each.topic(), each.partition()): each.offset() + 1 for each in found}
        offsets = [TopicPartition(name, partition, offset) for (name, partition), offset in ends.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        committed = consumer.committed(consumer.assignment(), timeout=20)
        return {
            "values": sorted(each.value() for each in found),
            "committed": sorted((each.topic, each.partition, each.offset) for each in committed),
        }
    finally:
        consumer.close()


def run_member(
    bootstrap: str,
    group: str,
    topic: str,
    session_ms: int,
    emit: Callable[[dict[str, Any]], None],
    stop: threading.Event,
) -> None:
    """Runs a member until `stop`; `session_ms` is ignored, since the broker sets it."""
    held: set[int] = set()

    def changed(partitions: list[TopicPartition], *, gone: bool) -> None:
        indexes = {partition.partition for partition in partitions}
        held.difference_update(indexes) if gone else held.update(indexes)
        emit({"assigned": sorted(held)})

    consumer = member(bootstrap, group, enable_auto_commit=True, auto_commit_interval_ms=200)
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: changed(partitions, gone=False),
        on_revoke=lambda _, partitions: changed(partitions, gone=True),
        on_lost=lambda _, partitions: changed(partitions, gone=True),
    )
    emit({"assigned": []})  # a member without partitions gets no callback
    follow(consumer, emit, stop)
