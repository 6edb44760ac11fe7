"""The committed records of a partition, as Arrow tables in the order of offsets, from each kind of copy."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, cast

from odradek.pipeline.auditing.scan import batches
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.offsets import Planner
from odradek.pipeline.segments.options import parse
from odradek.pipeline.segments.reading import Range, Reading, decoder, read_range
from odradek.pipeline.segments.rows import HEADERS_TYPE, TIMESTAMP_TYPE, Columns, RowFilter, Section, pa
from odradek.pipeline.table import open_table
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import READ_COMMITTED, Fetched, WireClient
from odradek.storage_backends.interface import StoreError
from odradek.wire.records.batch import BatchHeader
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import ControlType, read_control_marker, records_section

SECTIONS_BYTES: Final = 4 * 1024 * 1024
"""The approximate size of a table's decompressed records."""
ROWS: Final = 4_096
"""The number of rows of an archive's file that are read at a time."""
COLUMNS: Final = ("offset", "timestamp", "timestampType", "key", "value", "headers")
SCHEMA: Final = pa.schema(
    list(zip(COLUMNS, (pa.int64(), TIMESTAMP_TYPE, pa.int32(), pa.binary(), pa.binary(), HEADERS_TYPE), strict=True))
)


class Source(Protocol):
    """A copy of a topic."""

    name: str
    is_compacted: bool
    """True if compaction may remove records from it."""
    damages: list[str]
    """The parts that could not be read so far."""

    def partitions(self) -> dict[int, tuple[int, int]]:
        """Return its offsets of each partition: from the first up to, but excluding, the second."""
        ...

    def tables(self, partition: int, start: int, end: int) -> Iterator[Any]:
        """Yield the records with offsets from `start` up to, but excluding, `end`, as `pyarrow.Table`s of `COLUMNS`."""
        ...


class TopicSource:
    """A topic of a cluster, read as a read_committed consumer does."""

    def __init__(self, client: WireClient, topic: str, bootstrap: str, *, is_compacted: bool) -> None:
        self._client, self._topic = client, topic
        self.name = f"{bootstrap}/{topic}"
        self.is_compacted = is_compacted
        self.damages: list[str] = []

    def partitions(self) -> dict[int, tuple[int, int]]:
        """See `Source.partitions`: up to the last stable offset."""
        places = [TopicPartition(self._topic, index) for index in range(len(self._client.topic(self._topic).leaders))]
        starts = self._client.list_offsets(places, -2)
        ends = self._client.list_offsets(places, -1, READ_COMMITTED)
        return {place.partition: (starts[place], ends[place]) for place in places}

    def tables(self, partition: int, start: int, end: int) -> Iterator[Any]:
        """See `Source.tables`. Fetch responses list aborted transactions, so markers need not be awaited."""
        place = TopicPartition(self._topic, partition)
        decode, rows = decoder().decode, RowFilter(start, end)

        def damaged(first: int, after: int, why: str) -> None:
            self.damages.append(
                f"{self.name}, partition {partition}: damaged batch: offsets {first} to {after - 1}: {why}"
            )

        def of(header: BatchHeader, fetched: Fetched) -> Section | None:
            try:
                return Section(header, bytes(records_section(fetched.records, header)))
            except InvalidRecordBatch as error:
                damaged(header.base_offset, header.next_offset, str(error))
                return None

        for sections in _in_parts(committed(batches(self._client, place, start, end, damaged, READ_COMMITTED)), of):
            yield _table(decode(sections, rows, with_headers=True))


def _in_parts(
    found: Iterable[tuple[BatchHeader, Fetched]], section_of: Callable[[BatchHeader, Fetched], Section | None]
) -> Iterator[list[Section]]:
    """Group batches in lists of about `SECTIONS_BYTES`."""
    sections: list[Section] = []
    size_bytes = 0
    for header, fetched in found:
        if (section := section_of(header, fetched)) is not None:
            sections.append(section)
            size_bytes += len(section.data)
        if size_bytes >= SECTIONS_BYTES:
            yield sections
            sections, size_bytes = [], 0
    if sections:
        yield sections


def committed(found: Iterable[tuple[BatchHeader, Fetched]]) -> Iterator[tuple[BatchHeader, Fetched]]:
    """Yield the batches without those of aborted transactions, from fetches with `READ_COMMITTED`, as a consumer does.
    Each fetch lists the producers of aborted transactions with their first offset; an abort marker ends each.
    """
    of_fetch: Fetched | None = None
    starts: list[tuple[int, int]] = []
    aborting: set[int] = set()
    for header, fetched in found:
        if fetched is not of_fetch:
            of_fetch, aborting = fetched, set()
            starts = sorted((first, producer_id) for producer_id, first in fetched.aborted)
        while starts and starts[0][0] <= header.last_offset:
            aborting.add(starts.pop(0)[1])
        if header.is_control:
            kind = read_control_marker(fetched.records[header.position : header.end_position]).type
            if kind is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif header.record_count and not (header.is_transactional and header.producer_id in aborting):
            yield header, fetched


def _table(columns: Columns) -> Any:  # noqa: ANN401 - pyarrow has no types
    arrays = [columns.offset, columns.timestamp, columns.timestamp_type, columns.key, columns.value, columns.headers]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class ArchiveSource:
    """A table of the topic, made by `odradek pipeline archive`."""

    def __init__(self, path: str, topic: str) -> None:
        self._root, self._topic = Path(path), topic
        self._table = open_table(path)
        self.name = path
        self.is_compacted = False
        self.damages: list[str] = []

    def partitions(self) -> dict[int, tuple[int, int]]:
        """See `Source.partitions`."""
        return {
            place.partition: (one.start, one.end)
            for place, one in self._table.progress.items()
            if place.topic == self._topic
        }

    def tables(self, partition: int, start: int, end: int) -> Iterator[Any]:
        """See `Source.tables`. Raises PipelineError for a table without the raw columns.

        Files whose ranges of offsets overlap, as those of several days of one batch may, are merged; each is in order.
        """
        spans = [
            (span.first, span.last, file.path)
            for file in self._table.files.values()
            for span in file.spans
            if span.topic == self._topic and span.partition == partition and span.last >= start and span.first < end
        ]
        for paths in _overlapping(spans):
            yield from in_order([self._rows(path, partition, start, end) for path in paths])

    def _rows(self, path: str, partition: int, start: int, end: int) -> Iterator[Any]:
        """Yield a file's rows, some at a time."""
        import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]

        with cast("Any", pq).ParquetFile(self._root / path) as file:
            missing = set(COLUMNS) - set(file.schema_arrow.names)
            if missing:
                raise PipelineError(f"{self.name} was archived with --drop-raw: it lacks {', '.join(sorted(missing))}")
            for batch in file.iter_batches(ROWS, columns=["topic", "partition", *COLUMNS]):
                rows = pa.Table.from_batches([batch]).filter(_within(self._topic, partition, start, end))
                if len(rows):
                    yield rows.select(list(COLUMNS)).cast(SCHEMA)


def in_order(streams: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Merge several streams of tables, each in order of offsets; one table of each is in memory."""
    heads: list[tuple[Any, Iterator[Any]]] = _filled((None, stream) for stream in streams)
    while len(heads) > 1:
        until = min(_last_offset(table) for table, _ in heads)
        counts = [_count_to(table, until) for table, _ in heads]
        parts = [table.slice(0, count) for (table, _), count in zip(heads, counts, strict=True)]
        yield pa.concat_tables(parts).sort_by("offset")
        heads = _filled((table.slice(count), stream) for (table, stream), count in zip(heads, counts, strict=True))
    for table, stream in heads:
        yield table
        yield from stream


def _filled(heads: Iterable[tuple[Any, Iterator[Any]]]) -> list[tuple[Any, Iterator[Any]]]:
    """Return the streams that have not ended, each with a table with rows left."""
    full = ((table if table is not None and len(table) else next(stream, None), stream) for table, stream in heads)
    return [(table, stream) for table, stream in full if table is not None]


def _last_offset(table: Any) -> int:  # noqa: ANN401 - pyarrow has no types
    return table.column("offset")[len(table) - 1].as_py()


def _count_to(table: Any, offset: int) -> int:  # noqa: ANN401 - pyarrow has no types
    return bisect_right(table.column("offset").to_pylist(), offset)


def _overlapping(spans: Iterable[tuple[int, int, str]]) -> Iterator[list[str]]:
    """Return the paths in groups, in order of offsets: all files of a group end before the next group begins."""
    group: list[str] = []
    group_end = -1
    for first, last, path in sorted(spans):
        if group and first > group_end:
            yield group
            group = []
        group.append(path)
        group_end = max(group_end, last)
    if group:
        yield group


class DirectorySource:
    """A broker's data directory."""

    def __init__(self, path: str, topic: str, *, is_compacted: bool) -> None:
        self._topic = topic
        self.name = path
        self.is_compacted = is_compacted
        self.damages: list[str] = []
        with _store_errors():
            extents = Planner(parse({"path": path, "subscribe": topic}, streaming=False)).extents()
        self._extents = {partition: one for (_, partition), one in extents.items()}

    def partitions(self) -> dict[int, tuple[int, int]]:
        """See `Source.partitions`."""
        return {partition: (one.start, one.end) for partition, one in self._extents.items()}

    def tables(self, partition: int, start: int, end: int) -> Iterator[Any]:
        """See `Source.tables`."""
        wanted = Range(self._topic, partition, str(self._extents[partition].directory), start, end)
        with _store_errors():
            for batch in read_range(wanted, Reading(with_headers=True)):
                yield pa.Table.from_batches([batch]).select(list(COLUMNS)).cast(SCHEMA)


@contextmanager
def _store_errors() -> Generator[None]:
    try:
        yield
    except StoreError as error:
        raise PipelineError(str(error)) from error


def _within(topic: str, partition: int, start: int, end: int) -> Any:  # noqa: ANN401 - pyarrow has no types
    import pyarrow.compute as pc  # pyright: ignore[reportMissingTypeStubs]

    column: Any = cast("Any", pc).field
    of_partition = (column("topic") == topic) & (column("partition") == partition)
    return of_partition & (column("offset") >= start) & (column("offset") < end)
