"""The map from offsets of the source to offsets of the target, if they differ, stored in a topic at the target.

The topic `odradek-mirror-offsets` is compacted and has one partition. Each transaction that copies records writes, for
each partition that it touches, one record into it, so that records and progress are committed together:

    key    {"source": cluster id, "topic": …, "partition": …, "from": first offset of the source}
    value  {"next": offset to continue from, "begins": whether it is the first, "runs": [[source, target, count], …]}

In a run offsets are consecutive on both sides. Between runs the source has gaps (markers, aborted records, compaction).
Only the newest entries of a partition are kept; older ones get tombstones.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false
# confluent-kafka's types are incomplete

import json
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from odradek.pipeline.cluster import LOG, Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition

MAP_TOPIC: Final = "odradek-mirror-offsets"
_SETTINGS: Final = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
MAX_ENTRIES: Final = 5000
"""The number of transactions per partition that are kept; offsets below the oldest are not translated."""
MAX_RUNS: Final = 200
"""The maximal number of runs of an entry; others are omitted, and offsets in them become the end of the run before."""


class Run(NamedTuple):
    """A range of offsets that are consecutive on both sides."""

    source: int
    target: int
    length: int


@dataclass(slots=True)
class Entry:
    """The part of one transaction that concerns a partition."""

    source_from: int
    source_next: int
    runs: list[Run] = field(default_factory=list[Run])
    begins: bool = False
    """True if nothing was copied before."""

    def add(self, source: int, target: int) -> None:
        """Add a copied record. Records have to be added in order of their offsets."""
        last = self.runs[-1] if self.runs else None
        if last is not None and (last.source + last.length, last.target + last.length) == (source, target):
            self.runs[-1] = last._replace(length=last.length + 1)
        else:
            self.runs.append(Run(source, target, 1))

    def value(self) -> bytes:
        """Return the value of the entry's record."""
        step = -(-len(self.runs) // MAX_RUNS) if self.runs else 1
        return json.dumps({"next": self.source_next, "begins": self.begins, "runs": self.runs[::step]}).encode()


@dataclass(slots=True)
class PartitionMap:
    """The entries of one partition, in order of the source's offsets."""

    entries: list[Entry] = field(default_factory=list[Entry])

    @property
    def next_offset(self) -> int | None:
        """The next offset to copy; None before the first."""
        return self.entries[-1].source_next if self.entries else None

    def translate(self, offset: int) -> int | None:
        """Return the target's offset of the first record at or above `offset` of the source, or an earlier one. None if
        copying began after it, or its entry was deleted.
        """
        runs = [run for entry in self.entries for run in entry.runs]
        at = bisect_right(runs, offset, key=lambda run: run.source) - 1
        if at >= 0:
            run = runs[at]
            return run.target + min(offset - run.source, run.length)
        return runs[0].target if runs and self.entries[0].begins else None


Maps = dict[TopicPartition, PartitionMap]


def key_of(cluster_id: str, place: TopicPartition, source_from: int) -> bytes:
    """Return the key of a partition's entry."""
    return json.dumps(
        {"source": cluster_id, "topic": place.topic, "partition": place.partition, "from": source_from}
    ).encode()


def create_map_topic(target: Cluster) -> None:
    """Create the topic of the map if it is missing."""
    if MAP_TOPIC not in target.topics():
        target.create_topic(MAP_TOPIC, 1, _SETTINGS)


def read_maps(target: Cluster, cluster_id: str) -> Maps:
    """Return the committed maps of all partitions copied from the cluster with this id. Raises PipelineError."""
    if MAP_TOPIC not in target.topics():
        return {}
    place = TopicPartition(MAP_TOPIC, 0)
    start = target.offsets({place: EARLIEST})[place]
    end = target.offsets({place: LATEST}, committed_only=True)[place]
    entries: dict[bytes, bytes | None] = {}
    if start < end:
        entries.update(_records(target.connection, start, end))
    return _maps(entries, cluster_id)


def _records(connection: Connection, start: int, end: int) -> list[tuple[bytes, bytes | None]]:
    from confluent_kafka import Consumer, KafkaError, KafkaException
    from confluent_kafka import TopicPartition as KafkaTopicPartition

    settings: dict[str, Any] = {
        **connection.for_librdkafka(),
        "group.id": "odradek-mirror",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer, found = Consumer(settings, logger=LOG), list[tuple[bytes, bytes | None]]()
    try:
        consumer.assign([KafkaTopicPartition(MAP_TOPIC, 0, start)])
        at, deadline_s = start, time.monotonic() + connection.timeout_s
        while at < end:
            messages = consumer.consume(10_000, 0.1)
            if messages:
                deadline_s = time.monotonic() + connection.timeout_s
            elif time.monotonic() > deadline_s:
                raise PipelineError(f"{connection.bootstrap}: {MAP_TOPIC!r} cannot be read to its end")
            for message in messages:
                error = message.error()
                if error is None:
                    found.append((message.key() or b"", message.value()))
                    at = (message.offset() or 0) + 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    at = end
                else:
                    raise PipelineError(f"{connection.bootstrap}: {MAP_TOPIC!r}: {error.str()}")
    except KafkaException as error:
        raise PipelineError(f"{connection.bootstrap}: {MAP_TOPIC!r}: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return found


def _maps(records: dict[bytes, bytes | None], cluster_id: str) -> Maps:
    maps: Maps = {}
    for key, value in records.items():
        try:
            named = json.loads(key)
            if named["source"] != cluster_id:
                continue
            if value is None:
                continue
            given = json.loads(value)
            entry = Entry(named["from"], given["next"], [Run(*run) for run in given["runs"]], given["begins"])
            maps.setdefault(TopicPartition(named["topic"], named["partition"]), PartitionMap()).entries.append(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"a record of {MAP_TOPIC!r} is not a mirror's: {key[:200]!r}") from error
    for one in maps.values():
        one.entries.sort(key=lambda entry: entry.source_from)
    return maps
