"""The Spark data source: `spark.dataSource.register(SegmentSource)`, then `spark.read.format("odradek")`."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from odradek.pipeline.segments import options as of_read
from odradek.pipeline.segments.filters import Condition, Conditions, condition_of
from odradek.pipeline.segments.offsets import Extent, Partition, Planner
from odradek.pipeline.segments.options import Options
from odradek.pipeline.segments.reading import Range, Reading, lose, read_range
from odradek.pipeline.worker import spare_worker

Offsets: TypeAlias = dict[str, dict[str, int]]
"""A stream's position, as `format("kafka")` writes it: {"topic": {"0": next offset}}."""

_SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"
"""Spark's module that runs in the process in which filters are pushed down. Elsewhere Spark 4.1 refuses a reader with
`pushFilters` if `spark.sql.python.filterPushdown.enabled` is false, its default.
"""
_HEADERS = "headers array<struct<key: string, value: binary>>"


class SegmentSource(DataSource):
    """`format("odradek")`: topics from a data directory, with the columns and rows of `format("kafka")`.

    docs/pipeline.md has the options.
    """

    default_path: str | None = None

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "odradek"

    @classmethod
    def of(cls, data: str | Path) -> type["SegmentSource"]:
        """Return a source to register, with the data directory `data` as the default of `path`."""
        return type("SegmentSource", (cls,), {"default_path": str(data)})

    def _parsed(self, *, streaming: bool) -> Options:
        given = dict(self.options)
        if self.default_path is not None and "path" not in given:
            given["path"] = self.default_path
        return of_read.parse(given, streaming=streaming)

    def schema(self) -> str:
        """Return the columns of `format("kafka")`; `headers` with the option `includeHeaders`."""
        spare_worker()
        wants_headers = str(self.options.get("includeHeaders", "")).strip().lower() == "true"
        return f"{_SCHEMA}, {_HEADERS}" if wants_headers else _SCHEMA

    def reader(self, schema: StructType) -> "SegmentReader":
        """A batch read."""
        kind = PushingReader if _PUSHDOWN in sys.modules else SegmentReader
        return kind(self._parsed(streaming=False))

    def streamReader(self, schema: StructType) -> "SegmentStreamReader":  # noqa: N802 - Spark's name
        """A stream."""
        return SegmentStreamReader(self._parsed(streaming=True))


class RangePartition(InputPartition):
    """The input of one task."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)

    @property
    def range(self) -> Range:
        """The range of offsets."""
        return self.value


def _reading(options: Options, conditions: Sequence[Condition] = ()) -> Reading:
    return Reading(options.committed, options.with_headers, options.fails_on_loss, Conditions(tuple(conditions)))


class SegmentReader(DataSourceReader):
    """A batch read."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._conditions: list[Condition] = []

    def partitions(self) -> Sequence[RangePartition]:
        """Plan one task per partition, or more by `minPartitions`; none if the filters exclude everything."""
        spare_worker()
        ranges = Planner(self._options).ranges(Conditions(tuple(self._conditions)))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Yield the rows of a task; `partition` is None if there is nothing to read."""
        if isinstance(partition, RangePartition):
            yield from read_range(partition.range, _reading(self._options, self._conditions))
        spare_worker()


class PushingReader(SegmentReader):
    """A batch read that applies conditions on topic, partition, offset and timestamp itself."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Accept the filters that the reader can apply, and return the others to Spark."""
        for each in filters:
            condition = condition_of(each)
            if condition is None:
                yield each
            else:
                self._conditions.append(condition)


class SegmentStreamReader(DataSourceStreamReader):
    """A stream. A query's position is the next offset of each partition."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner = Planner(options)

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name, here and below
        """Return the position at which a new query begins."""
        extents = self._planner.extents()
        return _written(self._planner.resolve(self._options.starting, extents, starting=True))

    def latestOffset(self) -> Offsets:  # noqa: N802
        """Return the current ends of the partitions."""
        return _written({partition: extent.end for partition, extent in self._planner.extents().items()})

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[RangePartition]:
        """Plan a micro-batch.

        For partitions that were deleted, end earlier than before, or are new and have lost their first offsets, raises
        DataLossError, or logs a warning if `failOnDataLoss` is false.
        """
        if start == end:
            return []
        starts, ends, extents = _read(start), _read(end), self._planner.extents()
        self._check_lost(starts, ends, extents)
        known = {partition: end for partition, end in ends.items() if partition in extents}
        # a new partition begins at its start
        begins = {partition: starts.get(partition, extents[partition].start) for partition in known}
        ranges = self._planner.between(begins, known, extents)
        return [RangePartition(each) for each in self._planner.divided(ranges)]

    def _check_lost(
        self, starts: Mapping[Partition, int], ends: Mapping[Partition, int], extents: Mapping[Partition, Extent]
    ) -> None:
        how = _reading(self._options)
        for topic, index in sorted((starts.keys() | ends.keys()) - (extents.keys() & ends.keys())):
            lose(f"{topic}-{index} is gone: its topic was deleted", how)
        for (topic, index), end in ends.items():
            start = starts.get((topic, index))
            if start is not None and end < start:
                lose(f"{topic}-{index} went back from offset {start} to {end}: its topic was made anew", how)
            if start is None and (topic, index) in extents and extents[topic, index].start > 0:
                lose(f"the new partition {topic}-{index} has lost offsets below {extents[topic, index].start}", how)

    def commit(self, end: Offsets) -> None:
        """Do nothing: the data directory does not store readers' positions."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the range of a task."""
        assert isinstance(partition, RangePartition)
        yield from read_range(partition.range, _reading(self._options))


def _written(offsets: Mapping[Partition, int]) -> Offsets:
    written: Offsets = {}
    for (topic, index), offset in sorted(offsets.items()):
        written.setdefault(topic, {})[str(index)] = offset
    return written


def _read(written: Offsets) -> dict[Partition, int]:
    return {(topic, int(index)): offset for topic, offsets in written.items() for index, offset in offsets.items()}
