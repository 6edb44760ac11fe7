"""confluent-kafka as a member of a consumer group of the new protocol (`group.protocol=consumer`, KIP-848).

Sessions and heartbeats are the broker's to set, and what a rebalance changes is told as a difference.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from compat_tests.clients import Deadline


def member(bootstrap: str, group: str, **extra: Any) -> Consumer:
    """A consumer that is about to join; in `extra`, `_` stands for `.`."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        "log_level": 2,
    }
    return Consumer({**settings, **{key.replace("_", "."): value for key, value in extra.items()}})


def consume_group(bootstrap: str, group: str, topic: str, count: int) -> dict[str, Any]:
    """Read `count` records as the group's only member, and commit them. A topic with a leading ^ is an expression."""
    consumer = member(bootstrap, group)
    try:
        consumer.subscribe([topic])
        messages = _collect(consumer, count)
        ends = {(each.topic(), each.partition()): each.offset() + 1 for each in messages}
        offsets = [TopicPartition(name, partition, offset) for (name, partition), offset in ends.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        committed = consumer.committed(consumer.assignment(), timeout=20)
        return {
            "values": sorted(each.value() for each in messages),
            "committed": sorted((each.topic, each.partition, each.offset) for each in committed),
        }
    finally:
        consumer.close()


def _collect(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = Deadline(f"{count} records")
    while len(found) < count:
        for message in consumer.consume(count - len(found), timeout=0.2):
            if message.error():
                raise KafkaException(message.error())
            found.append(message)
        deadline.check(len(found))
    return found


def run_member(
    bootstrap: str,
    group: str,
    topic: str,
    session_ms: int,
    emit: Callable[[dict[str, Any]], None],
    stop: threading.Event,
) -> None:
    """A member until `stop`; `session_ms` is not its to choose."""
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
    emit({"assigned": []})  # who gets nothing is told nothing
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            emit({"record": [message.partition(), message.offset(), message.value().decode()]})
        elif message is not None:
            emit({"trouble": message.error().name()})
    consumer.close()
