"""The topics of a mirror: selecting them, and creating them at the target."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false
# confluent-kafka's types are incomplete

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from odradek.pipeline.cluster import LOG, Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring.offset_map import MAP_TOPIC
from odradek.pipeline.retrying import may_pass

OF_ONE_CLUSTER: Final = frozenset(
    {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "local.retention.ms",
        "local.retention.bytes",
    }
)
"""Settings of a topic that depend on its cluster: they contain ids of brokers, or configure tiered storage."""
NOT_SYNCED: Final = OF_ONE_CLUSTER | {
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "unclean.leader.election.enable",
}
"""Settings that are not changed in an existing topic, as in MirrorMaker 2: a target has its own number of replicas, and
timestamps were set by the source.
"""


def selected(topics: Mapping[str, int], pattern: str) -> dict[str, int]:
    """Return the topics whose full names match `pattern`, and their partitions; internal ones are never copied. Raises
    PipelineError for an invalid regular expression.
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
    """Create missing topics, with the same partitions and settings, and missing partitions at the target; returns
    notes. Raises PipelineError, also if the target has more partitions than the source.
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


def sync_settings(source: Cluster, target: Cluster, topics: Iterable[str]) -> list[str]:
    """Give topics that exist in both clusters the source's settings at the target, and remove those not set at the
    source, except `NOT_SYNCED`; returns notes.

    A refusal of the target is noted, and the copy continues. Raises PipelineError if a cluster does not answer.
    """
    notes: list[str] = []
    both = sorted(set(topics) & target.topics().keys())
    wanted, present = source.topic_configs(both), target.topic_configs(both)
    for name in both:
        changes = _changes(wanted[name], present[name])
        if not changes:
            continue
        shown = ", ".join(key if text is None else f"{key}={text}" for key, text in changes.items())
        try:
            target.alter_topic_config(name, changes)
        except PipelineError as error:
            if may_pass(error):
                raise
            notes.append(f"topic {name!r} does not take the source's settings {shown}: {error.message}")
        else:
            notes.append(f"topic {name!r} takes the source's settings: {shown}")
    return notes


def _changes(wanted: Mapping[str, str | None], present: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the changes from one to the other; None removes a setting."""
    names = sorted((wanted.keys() | present.keys()) - NOT_SYNCED)
    return {name: wanted.get(name) for name in names if wanted.get(name) != present.get(name)}


def _grow(connection: Connection, topic: str, count: int) -> None:
    settings: dict[str, Any] = {**connection.for_librdkafka(), "client.id": "odradek-mirror"}
    admin = AdminClient(settings, logger=LOG)
    try:
        admin.create_partitions([NewPartitions(topic, count)], request_timeout=connection.timeout_s)[topic].result()
    except KafkaException as error:
        raise PipelineError(f"{connection.bootstrap}: topic {topic!r}: {error.args[0].str()}") from error
