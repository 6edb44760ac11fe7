"""The topics of a mirror: which they are, and how they come to be at the target."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false
# confluent-kafka's types are incomplete

import re
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from odradek.pipeline.cluster import LOG, Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring.offset_map import MAP_TOPIC

OF_ONE_CLUSTER: Final = frozenset(
    {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "local.retention.ms",
        "local.retention.bytes",
    }
)
"""Settings of a topic that speak of the brokers it stands on."""


def selected(topics: Mapping[str, int], pattern: str) -> dict[str, int]:
    """The topics that the whole of `pattern` matches, and their partitions; internal ones are never copied.

    Raises PipelineError for a pattern that is no regular expression.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise PipelineError(f"--topics {pattern!r} is no regular expression: {error}") from error
    return {
        name: count
        for name, count in sorted(topics.items())
        if wanted.fullmatch(name) and not name.startswith("__") and name != MAP_TOPIC
    }


def prepare(source: Cluster, target: Cluster, topics: Mapping[str, int]) -> list[str]:
    """Make what is missing at the target: topics with the same partitions and settings, partitions; returns notes.

    Raises PipelineError, also where the target has more partitions than the source.
    """
    notes: list[str] = []
    there = target.topics()
    for name, count in topics.items():
        if name not in there:
            config = {key: text for key, text in source.topic_config(name).items() if text is not None}
            target.create_topic(name, count, {k: v for k, v in config.items() if k not in OF_ONE_CLUSTER})
            notes.append(f"topic {name!r} is created with {count} partition(s)")
        elif there[name] < count:
            _grow(target.connection, name, count)
            notes.append(f"topic {name!r} has grown from {there[name]} to {count} partitions")
        elif there[name] > count:
            raise PipelineError(f"topic {name!r} has {there[name]} partitions at the target, {count} at the source")
    return notes


def _grow(connection: Connection, topic: str, count: int) -> None:
    settings: dict[str, Any] = {**connection.for_librdkafka(), "client.id": "odradek-mirror"}
    admin = AdminClient(settings, logger=LOG)
    try:
        admin.create_partitions([NewPartitions(topic, count)], request_timeout=connection.timeout_s)[topic].result()
    except KafkaException as error:
        raise PipelineError(f"{connection.bootstrap}: topic {topic!r}: {error.args[0].str()}") from error
