"""The range of offsets to read of each partition, and its division between tasks."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from odradek.gateway.beside.catalog import INTERNAL_TOPICS, Catalog, Topic
from odradek.gateway.beside.committed import last_stable_offset
from odradek.partitions.model import PartitionKey
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.filters import NO_CONDITIONS, Conditions
from odradek.pipeline.segments.options import EARLIEST, LATEST, Bound, OptionError, Options
from odradek.pipeline.segments.reading import LOOKS, Range
from odradek.pipeline.segments.store import LmdbLogs, LogGoneError, LogView, SegmentGoneError, partition_path
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.reader import first_record_at_or_after

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True)
class Extent:
    """A partition's current range: `start` ≤ offset < `end` can be read."""

    directory: Path
    start: int = 0
    end: int = 0


class Planner:
    """Decides what to read, from the options and the current state of the data directory."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._catalog = Catalog(LmdbLogs(options.path))

    def partitions(self) -> dict[Partition, Path]:
        """Return the partitions that are subscribed to. Raises PipelineError for a topic that does not exist."""
        topics = self._catalog.topics()
        subscription = self._options.subscription
        if subscription.pattern is not None:
            pattern = _compiled(subscription.pattern)
            names = [name for name in topics if pattern.fullmatch(name) and name not in INTERNAL_TOPICS]
            return {(name, index): self._path(key) for name in sorted(names) for index, key in topics[name].items()}
        if subscription.assigned is not None:
            wanted = [(topic, index) for topic, indexes in subscription.assigned.items() for index in indexes]
            return {each: self._directory(topics, *each) for each in wanted}
        return {
            (name, index): self._path(key)
            for name in subscription.topics
            for index, key in self._topic(topics, name).items()
        }

    def _topic(self, topics: Mapping[str, Topic], name: str) -> Topic:
        if name not in topics:
            raise PipelineError(f"there is no topic {name!r} in {self._options.path}")
        return topics[name]

    def _directory(self, topics: Mapping[str, Topic], name: str, index: int) -> Path:
        keys = self._topic(topics, name)
        if index not in keys:
            raise PipelineError(f"topic {name!r} in {self._options.path} has no partition {index}")
        return self._path(keys[index])

    def _path(self, key: PartitionKey) -> Path:
        return partition_path(self._options.path, key)

    def extents(self) -> dict[Partition, Extent]:
        """Return the current range of each partition."""
        return {partition: self._extent(directory) for partition, directory in self.partitions().items()}

    def _extent(self, directory: Path) -> Extent:
        try:
            with LogView.open(directory) as view:
                return Extent(directory, view.log_start_offset, self._end(view))
        except LogGoneError:
            return Extent(directory)  # never written to, or being deleted: a task reports lost offsets

    def _end(self, view: LogView) -> int:
        end = last_stable_offset(view) if self._options.committed else view.log_end_offset
        if not self._options.include_active:
            end = min(end, view.segments[-1].base_offset)
        return max(end, view.log_start_offset)

    def resolve(self, bound: Bound, extents: Mapping[Partition, Extent], *, starting: bool) -> dict[Partition, int]:
        """Return the offset of a bound for each partition. Raises OptionError, PipelineError."""
        self._check_named(bound, extents)
        return {partition: self._resolve(bound, partition, extent, starting) for partition, extent in extents.items()}

    def _check_named(self, bound: Bound, extents: Mapping[Partition, Extent]) -> None:
        given = bound.offsets if bound.offsets is not None else bound.times_ms
        if given is not None and given.keys() != extents.keys():
            wrong = ", ".join(f"{topic}-{index}" for topic, index in sorted(given.keys() ^ extents.keys()))
            raise OptionError(f"offsets must be given for all partitions that are read, and for no others: {wrong}")

    def _resolve(self, bound: Bound, partition: Partition, extent: Extent, starting: bool) -> int:
        time_ms = bound.time_ms if bound.times_ms is None else bound.times_ms[partition]
        if time_ms is not None:
            return self._offset_at(time_ms, partition, extent, starting=starting)
        offset = bound.default if bound.offsets is None else bound.offsets[partition]
        return {EARLIEST: extent.start, LATEST: extent.end}.get(offset, offset)

    def _offset_at(self, time_ms: int, partition: Partition, extent: Extent, *, starting: bool) -> int:
        found = _first_offset_since(extent, time_ms)
        if found is not None:
            return found
        if starting and not self._options.late_start_is_latest:
            raise PipelineError(
                f"{partition[0]}-{partition[1]} has no record of {time_ms} ms or later; with "
                "startingOffsetsByTimestampStrategy=latest it is read from its end"
            )
        return extent.end

    def ranges(self, conditions: Conditions = NO_CONDITIONS) -> list[Range]:
        """Plan a batch read. Raises OptionError, PipelineError, StoreError."""
        options, extents = self._options, self.extents()
        starts = self.resolve(options.starting, extents, starting=True)
        ends = self.resolve(options.ending, extents, starting=False)
        planned = self.between(starts, ends, extents)
        return list(self.divided([each for found in planned for each in _within(found, conditions)]))

    def between(
        self, starts: Mapping[Partition, int], ends: Mapping[Partition, int], extents: Mapping[Partition, Extent]
    ) -> list[Range]:
        """Return the ranges that are not empty."""
        return [
            Range(topic, index, str(extents[topic, index].directory), starts[topic, index], end)
            for (topic, index), end in ends.items()
            if starts[topic, index] < end
        ]

    def divided(self, ranges: list[Range]) -> Iterator[Range]:
        """Divide ranges into about `minPartitions` parts, in proportion to their numbers of offsets, rounded."""
        total = sum(each.end - each.start for each in ranges)
        wanted = self._options.min_partitions or 0
        for each in ranges:
            size = each.end - each.start
            parts = min(max(round(size / total * wanted), 1), size) if wanted > len(ranges) else 1
            edges = [each.start + size * number // parts for number in range(parts + 1)]
            yield from (replace(each, start=edges[number], end=edges[number + 1]) for number in range(parts))


def _within(found: Range, conditions: Conditions) -> Iterator[Range]:
    """Omit the offsets that conditions exclude without reading records."""
    if conditions.allow_partition(found.topic, found.partition):
        start, end = conditions.offsets_within(found.start, found.end)
        if start < end:
            yield replace(found, start=start, end=end)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OptionError(f"subscribePattern {pattern!r} is not a regular expression: {error}") from error


def _first_offset_since(extent: Extent, time_ms: int) -> int | None:
    """Return the offset of the first record that is not older than a time, as ListOffsets does.

    Raises StoreError, SegmentGoneError if the log still lists a missing segment.
    """
    missed: list[object] = []
    while True:
        try:
            view = LogView.open(extent.directory)
        except LogGoneError:
            return None
        with view:
            try:
                return _search(view, extent, time_ms)
            except SegmentGoneError:
                missed.append(view.segments)
                if missed.count(view.segments) > LOOKS:
                    raise  # not replaced by another segment: the file is missing


def _search(view: LogView, extent: Extent, time_ms: int) -> int | None:
    start = max(extent.start, view.log_start_offset)
    for _, value in view.values(start, extent.end, time_ms):
        for header in iter_headers(value):
            if header.max_timestamp < time_ms or header.last_offset < start:
                continue
            found = first_record_at_or_after(value, time_ms, header, start_offset=start)
            if found is not None:
                return found.offset if found.offset < extent.end else None
    return None
