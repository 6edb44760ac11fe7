"""Decides the offsets of a batch: from the table's end up to the cluster's committed end. No I/O."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import EARLIEST, LATEST, Offsets, TopicPartition

RETENTION: Final = "lost to retention"
BEFORE: Final = "deleted before the first run"


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a topic's archive: `at` is EARLIEST, LATEST or a time in ms since the epoch. `places` are offsets of
    single partitions, or EARLIEST or LATEST, as in Spark's `startingOffsets`.
    """

    at: int = EARLIEST
    places: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `earliest`, `latest`, a time, or JSON. Raises ValueError; AttributeError for JSON of another shape."""
        from odradek.gateway.cli.options import parse_moment_ms

        if text in {"earliest", "latest"}:
            return cls(EARLIEST if text == "earliest" else LATEST)
        if text.lstrip().startswith("{"):
            return cls(places=_places(json.loads(text)))
        return cls(max(parse_moment_ms(text), 0))

    def of(self, place: TopicPartition) -> int:
        """Return the partition's value in `places`, else `at`."""
        return self.places.get(place, self.at)


def _places(value: Any) -> dict[TopicPartition, int]:  # noqa: ANN401 - JSON
    found: dict[TopicPartition, int] = {}
    for topic, partitions in value.items():
        for partition, offset in partitions.items():
            if type(offset) is not int or offset < EARLIEST:
                raise ValueError(topic)
            found[TopicPartition(topic, int(partition))] = offset
    return found


@dataclass(frozen=True, slots=True)
class Planned:
    """A partition's part of a batch: the table's end is `start`, and records are read from `first` up to `end`.
    `skipped` has the reasons for the offsets before `first`.
    """

    place: TopicPartition
    start: int
    first: int
    end: int
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Bounds:
    """The log start and the last stable offset of each partition."""

    earliest: Offsets
    stable: Offsets


def plan(done: Offsets, begin: Offsets, bounds: Bounds, max_offsets: int) -> list[Planned]:
    """Return the next batch, with at most about `max_offsets` offsets, distributed in proportion to each partition's
    new offsets. `done` is the table's end, `begin` the start of partitions that are not in the table. Partitions
    without new offsets are omitted; a new partition is included even if it is empty, so that its start is recorded.
    Raises PipelineError if a partition's last stable offset is below the table's end.
    """
    todo = [_whole(place, done, begin, bounds) for place in sorted(bounds.stable)]
    offsets = total(todo)
    share = min(1.0, max_offsets / offsets) if offsets else 1.0
    shared = [_shortened(one, share) for one in todo]
    return [one for one in shared if one.end > one.start or one.place not in done]


def total(planned: Sequence[Planned]) -> int:
    """Return the number of offsets to read."""
    return sum(one.end - one.first for one in planned)


def _whole(place: TopicPartition, done: Offsets, begin: Offsets, bounds: Bounds) -> Planned:
    known = place in done
    start = done[place] if known else begin[place]
    earliest, stable = bounds.earliest[place], bounds.stable[place]
    if start > stable:
        raise PipelineError(
            f"{place.topic}-{place.partition} ends at offset {stable:,}, before offset {start:,}, where the archive "
            "goes on: the cluster has lost records, or it is another one"
        )
    first = max(start, earliest)
    skipped = Counter({RETENTION if known else BEFORE: first - start})
    return Planned(place, start, first, max(first, stable), +skipped)


def _shortened(one: Planned, share: float) -> Planned:
    count = one.end - one.first
    kept = count if share >= 1.0 else min(count, int(count * share) + 1)
    return Planned(one.place, one.start, one.first, one.first + kept, one.skipped)


def as_spark_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets in the form of Spark's `startingOffsets`."""
    found: dict[str, dict[str, int]] = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(found)


def assignment(places: Sequence[TopicPartition]) -> str:
    """Return partitions in the form of Spark's `assign`."""
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return json.dumps(found)
