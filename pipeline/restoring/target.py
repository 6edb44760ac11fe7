"""The target topic: created if it is missing, and refused if the result would differ from the source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.gaps import FILLER_KEY
from odradek.pipeline.restoring.plan import Rows, Share
from odradek.pipeline.restoring.reading import records_between
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition
from odradek.pipeline.wire_client import BrokerError, WireClient
from odradek.wire.errors import ErrorCode
from odradek.wire.records.reader import Record

KEPT_FOR_EVER: Final[Mapping[str, str]] = {"retention.ms": "-1"}
"""A topic created for old records must not delete them by age before its user has set the retention."""
RENUMBER_HINT: Final = "restore into an empty topic, or with --renumber"


@dataclass(frozen=True, slots=True)
class Target:
    """A topic, with the start and end offsets of its partitions, and the settings that apply to it."""

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    config: Mapping[str, str | None]

    def place(self, partition: int) -> TopicPartition:
        """Return one of its partitions."""
        return TopicPartition(self.topic, partition)


def open_target(cluster: Cluster, client: WireClient, topic: str, partitions: int, config: Mapping[str, str]) -> Target:
    """Return the topic, created with `partitions` if it is missing. Raises PipelineError if it has fewer."""
    there = cluster.topics().get(topic)
    if there is None:
        cluster.create_topic(topic, partitions, {**KEPT_FOR_EVER, **config})
        client.repeated(lambda: _require(client, topic, partitions))
    elif there < partitions:
        raise PipelineError(f"topic {topic!r} has {there} partitions, and the table {partitions}")
    places = [TopicPartition(topic, index) for index in range(partitions)]
    starts, ends = client.list_offsets(places, EARLIEST), client.list_offsets(places, LATEST)
    return Target(
        topic,
        {place.partition: offset for place, offset in starts.items()},
        {place.partition: offset for place, offset in ends.items()},
        cluster.effective_config(topic),
    )


def _require(client: WireClient, topic: str, partitions: int) -> None:
    """Raise BrokerError, which the client retries, while a topic that has just been created lacks leaders."""
    found = client.topics([topic]).get(topic)
    if found is None or len(found.leaders) < partitions or min(found.leaders) < 0:
        raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {topic!r} has no leaders")


def check_prefixes(
    client: WireClient, target: Target, shares: Mapping[int, Share], rows: Mapping[int, Rows]
) -> list[str]:
    """Check that the records of each partition are the beginning of the table's, so that continuing writes each record
    once.

    The first and the last record are compared; an earlier run has written all records between them. Returns notes on
    records that have been deleted. Raises PipelineError if the topic has other records.
    """
    wanted = {
        (partition, offset)
        for partition, share in shares.items()
        for offset in (share.first, share.before)
        if offset is not None and target.starts[partition] <= offset < target.ends[partition]
    }
    archived = rows_at(rows, wanted)
    notes = (_check_prefix(client, target, partition, share, archived) for partition, share in shares.items())
    return [note for note in notes if note is not None]


def _check_prefix(
    client: WireClient, target: Target, partition: int, share: Share, archived: Mapping[tuple[int, int], Record]
) -> str | None:
    start, end, place = target.starts[partition], target.ends[partition], target.place(partition)
    name = f"{place.topic}-{partition}"
    if end == 0 or share.count == 0:
        return None
    if share.before is None:
        _require_fillers_only(client, place, start, end, share)
        return None
    if share.left_out:
        raise PipelineError(
            f"{name} ends at {end}: {share.left_out:,} records of the table from there on would be left out, and could "
            f"not be restored later; {RENUMBER_HINT}"
        )
    for offset in {share.first, share.before}:
        if offset is not None and start <= offset < end:
            _require_same(client, place, offset, archived[partition, offset])
    if share.remaining and any(True for _ in records_between(client, place, max(start, share.before + 1), end)):
        raise PipelineError(f"{name} has records that are not the table's, up to offset {end - 1}; {RENUMBER_HINT}")
    if share.first is not None and share.first < start:
        return f"{name} starts at {start}: whether the table's records before were restored cannot be seen"
    return None


def _require_fillers_only(client: WireClient, place: TopicPartition, start: int, end: int, share: Share) -> None:
    for record in records_between(client, place, max(start, end - 1), end):
        if record.key != FILLER_KEY or share.next is None or end > share.next:
            raise PipelineError(f"{place.topic}-{place.partition} is not empty; {RENUMBER_HINT}")


def check_records(client: WireClient, target: Target, wanted: set[tuple[int, int]], rows: Mapping[int, Rows]) -> None:
    """Check that the records at some partitions and offsets are the table's. Raises PipelineError."""
    for (partition, offset), archived in rows_at(rows, wanted).items():
        _require_same(client, target.place(partition), offset, archived)


def _require_same(client: WireClient, place: TopicPartition, offset: int, archived: Record) -> None:
    found = next(records_between(client, place, offset, offset + 1), None)
    if found != archived:
        raise PipelineError(
            f"{place.topic}-{place.partition} has another record at offset {offset} than the table; {RENUMBER_HINT}"
        )


def rows_at(rows: Mapping[int, Rows], wanted: set[tuple[int, int]]) -> dict[tuple[int, int], Record]:
    """Return some rows of the table, by partition and offset, as records."""
    found: dict[tuple[int, int], Record] = {}
    for partition, offset in wanted:
        row = rows[partition].row(offset)
        found[partition, offset] = Record(row.offset, row.timestamp_ms, row.key, row.value, tuple(row.headers))
    return found


def move_starts(client: WireClient, target: Target, shares: Mapping[int, Share]) -> list[str]:
    """Set the log start of each partition to its first restored record, as in the source, unless records precede it.

    Returns a note for each partition whose log start the broker refuses to move.
    """
    notes: list[str] = []
    for partition, share in shares.items():
        first, start, place = share.first, target.starts[partition], target.place(partition)
        if first is None or first <= start or next(records_between(client, place, start, first), None) is not None:
            continue
        try:
            client.delete_records({place: first})
        except BrokerError as error:
            notes.append(f"the log of {place.topic}-{partition} starts at {start} and not at {first}: {error}")
    return notes
