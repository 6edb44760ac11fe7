"""Hanging transactions: open in a partition, but no coordinator has the partition in a transaction (KIP-664)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.gateway.cli.client import Admin, Target, TopicPartition, retrying, topic_partition
from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.output import note
from odradek.gateway.cli.topics import describe_existing, led_partitions

Choice = tuple[str, tuple[int, ...]]
"""A topic and the indexes of its selected partitions; no indexes means all of them."""


class OpenTransaction(NamedTuple):
    """A producer with an open transaction in a partition."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int
    last_write_ms: int


def named_partitions(target: Target, admin: Admin, places: Sequence[Choice]) -> list[TopicPartition]:
    """The selected partitions; all of all topics if `places` is empty. Raises CliError for one that does not exist.

    Partitions without a leader cannot be described: one that is named raises CliError, others are left out with a note.
    """
    if places:
        described = describe_existing(target, admin, sorted({topic for topic, _ in places}))
    else:
        described = retrying(target, admin.describe_topics)
    there = {(topic["name"], part["partition_index"]) for topic in described for part in topic["partitions"]}
    led = set(led_partitions(described))
    wanted: set[tuple[str, int]] = set()
    for topic, indexes in places:
        missing = [index for index in indexes if (topic, index) not in there]
        if missing:
            raise CliError(f"topic {topic!r} has no partition {missing[0]}")
        if without := [index for index in indexes if (topic, index) not in led]:
            raise CliError(f"{topic}-{without[0]} has no leader")
        wanted |= {(topic, index) for index in indexes} or {place for place in there if place[0] == topic}
    wanted = wanted if places else there
    for topic, index in sorted(wanted - led):
        note(f"{topic}-{index} has no leader and is left out")
    return [topic_partition(*place) for place in sorted(wanted & led)]


def open_producers(
    target: Target, admin: Admin, partitions: Sequence[TopicPartition]
) -> list[tuple[TopicPartition, OpenTransaction]]:
    """All open transactions in these partitions."""
    described = retrying(target, lambda: admin.describe_producers(partitions))
    return [(place, _opened(each)) for place in sorted(described) for each in described[place].active_producers
            if each.current_transaction_start_offset >= 0]  # fmt: skip


def _opened(producer: Any) -> OpenTransaction:  # noqa: ANN401 - kafka-python's tuple
    return OpenTransaction(
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.current_transaction_start_offset,
        producer.last_timestamp,
    )


def find_hanging(
    target: Target, admin: Admin, places: Sequence[Choice], written_before_ms: int
) -> list[tuple[TopicPartition, OpenTransaction]]:
    """The open transactions without a write since `written_before_ms` that no coordinator has."""
    opened = open_producers(target, admin, named_partitions(target, admin, places))
    idle = [(place, one) for place, one in opened if one.last_write_ms < written_before_ms]
    if not idle:
        return []
    known = _known(target, admin, sorted({one.producer_id for _, one in idle}))
    return [(place, one) for place, one in idle if (one.producer_id, place) not in known]


def _known(target: Target, admin: Admin, producer_ids: Sequence[int]) -> set[tuple[int, TopicPartition]]:
    """(producer id, partition) of every transaction of these producers that a coordinator has."""
    listed = retrying(target, lambda: admin.list_transactions(producer_id_filters=list(producer_ids)))
    names = sorted({each.transactional_id for found in listed.values() for each in found})
    if not names:
        return set()
    described = retrying(target, lambda: admin.describe_transactions(names))
    return {(found.producer_id, place) for found in described.values() for place in found.topic_partitions}
