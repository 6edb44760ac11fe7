"""Metrics of the consumer groups that this broker coordinates: their number, committed offsets and lag."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from odradek.coordinator.groups.group import Group
from odradek.gateway.assembly import Services
from odradek.gateway.metrics.families import gauge, gauges

if TYPE_CHECKING:
    from odradek.coordinator.groups.table import GroupTable

_LABELS = ("consumergroup", "topic", "partition")


def group_metrics(services: Services) -> Iterator[Metric]:
    """Groups by state; committed offsets, and their lag behind the high watermark of logs that are open here.

    The names are kafka_exporter's, since Kafka itself does not report lag. Lag is missing for partitions of which this
    broker has no replica: alerts subtract committed offsets from the ends that leaders report.
    """
    states: Counter[str] = Counter()
    offsets: list[tuple[tuple[str, str, str], float]] = []
    lags: list[tuple[tuple[str, str, str], float]] = []
    for shard in services.groups.active_shards():
        table = shard.table
        states.update([f"{group.listed().group_type} {group.listed().group_state}" for group in _groups(table)])
        for group_id, topic, partition, offset in _committed(table):
            labels = (group_id, topic, str(partition))
            offsets.append((labels, offset))
            replica = services.replicas.used(topic, partition)  # `get` may add one, on the Trio thread only
            log = None if replica is None else replica.open_log
            if log is not None:
                lags.append((labels, max(0, log.high_watermark - offset)))
    yield gauge("kafka_coordinator_group_groupmetadatamanager_numgroups", "Groups.", sum(states.values()))
    by_state = [(state.split(" "), count) for state, count in sorted(states.items())]
    yield gauges("odradek_groups", "Groups by protocol and state.", ("protocol", "state"), by_state)
    yield gauges("kafka_consumergroup_current_offset", "Committed offset.", _LABELS, offsets)
    yield gauges("kafka_consumergroup_lag", "High watermark less committed offset.", _LABELS, lags)


# The Trio thread changes these tables meanwhile: each is copied by one call, which is atomic.


def _groups(table: "GroupTable") -> list[Group]:
    return [*list(table.classic.groups.values()), *list(table.consumer.groups.values())]


def _committed(table: "GroupTable") -> Iterator[tuple[str, str, int, int]]:
    for group_id, topics in list(table.offsets.store.groups()):
        for topic, partitions in list(topics.items()):
            for partition, value in list(partitions.items()):
                yield group_id, topic, partition, value.offset
