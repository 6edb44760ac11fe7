"""The committed records of a partition, as Arrow tables in the order of offsets, wherever they are kept."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, cast

from odradek.pipeline.auditing.scan import batches
from odradek.pipeline.cluster import TopicPartition
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.offsets import Planner
from odradek.pipeline.segments.options import parse
from odradek.pipeline.segments.reading import Range, Reading, decoder, read_range
from odradek.pipeline.segments.rows import HEADERS_TYPE, TIMESTAMP_TYPE, Columns, RowFilter, Section, pa
from odradek.pipeline.table import open_table
from odradek.pipeline.wire_client import READ_COMMITTED, WireClient
from odradek.storage_backends.interface import StoreError
from odradek.wire.records.batch import BatchHeader
from odradek.wire.records.reader import ControlType, read_control_marker, records_section

SECTIONS_BYTES: Final = 4 * 1024 * 1024
"""About how many bytes of records, decompressed, make a table."""
COLUMNS: Final = ("offset", "timestamp", "timestampType", "key", "value", "headers")
SCHEMA: Final = pa.schema(
    list(zip(COLUMNS, (pa.int64(), TIMESTAMP_TYPE, pa.int32(), pa.binary(), pa.binary(), HEADERS_TYPE), strict=True))
)


class Source(Protocol):
    """Where records come from."""

    name: str

    def partitions(self) -> dict[int, tuple[int, int]]:
        """The offsets that it has of each partition: from the first up to but not with the second."""
        ...

    def tables(self, partition: int, start: int, end: int) -> Iterator[Any]:
        """The records with offsets from `start` up to but not with `end`, as `pyarrow.Table`s of `COLUMNS`."""
        ...


class TopicSource:
    """A topic of a cluster, read as a read_committed consumer does."""

    def __init__(self, client: WireClient, topic: str, bootstrap: str) -> None:
        self._client, self._topic = client, topic
        self.name = f"{bootstrap}/{topic}"

    def partitions(self) -> dict[int, tuple[int, int]]:
        """See `Source.partitions`: up to the last stable offset."""
        places = [TopicPartition(self._topic, index) for index in range(len(self._client.topic(self._topic).leaders))]
        starts = self._client.list_offsets(places, -2)
        ends = self._client.list_offsets(places, -1, READ_COMMITTED)
        return {place.partition: (starts[place], ends[place]) for place in places}

    def tables(self, partition: int, start: int, end: int) -> Iterator[Any]:
        """See `Source.tables`. Batches of a transaction are kept back until its marker comes."""
        place = TopicPartition(self._topic, partition)
        decode = decoder().decode
        ending = _Ending()
        for header, records in batches(self._client, place, start, end):
            if header.is_control:
                ending.see_marker(header, records)
            elif header.record_count:
                ending.see(Section(header, bytes(records_section(records, header))))
            if sections := ending.take(SECTIONS_BYTES):
                yield _table(decode(sections, RowFilter(start, end), with_headers=True))
        if sections := ending.rest():
            yield _table(decode(sections, RowFilter(start, end), with_headers=True))


class _Waiting:
    """A batch in the order of offsets: `section` is None once its transaction was aborted."""

    __slots__ = ("is_open", "section")

    def __init__(self, section: Section, *, is_open: bool) -> None:
        self.section: Section | None = section
        self.is_open = is_open


class _Ending:
    """Batches in the order of offsets, each given out when its transaction has been committed, or left out.

    Each batch is looked at once as it comes, once at its transaction's marker, and once as it goes: the cost does not
    depend on how many wait. What waits is in memory: everything from the first batch of the oldest open transaction on.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._open: dict[int, list[_Waiting]] = {}
        self._size_bytes = 0

    def see(self, section: Section) -> None:
        """Take a batch."""
        header = section.header
        waiting = _Waiting(section, is_open=header.is_transactional)
        self._waiting.append(waiting)
        self._size_bytes += header.size_bytes + len(section.data)
        if header.is_transactional:
            self._open.setdefault(header.producer_id, []).append(waiting)

    def see_marker(self, header: BatchHeader, records: memoryview) -> None:
        """Take a control batch."""
        kind = read_control_marker(records[header.position : header.end_position]).type
        if kind not in {ControlType.COMMIT, ControlType.ABORT}:
            return
        for waiting in self._open.pop(header.producer_id, ()):
            waiting.is_open = False
            if kind is ControlType.ABORT:
                self._forget(waiting)
                waiting.section = None

    def take(self, size_bytes: int) -> list[Section]:
        """The first ones that are decided, once about `size_bytes` wait; they are taken away."""
        if self._size_bytes < size_bytes:
            return []
        taken: list[Section] = []
        while self._waiting and not self._waiting[0].is_open:
            waiting = self._waiting.popleft()
            self._forget(waiting)
            if waiting.section is not None:
                taken.append(waiting.section)
        return taken

    def rest(self) -> list[Section]:
        """All that are left. One without a marker is committed: compaction removes aborted records before markers."""
        return [waiting.section for waiting in self._waiting if waiting.section is not None]

    def _forget(self, waiting: _Waiting) -> None:
        if waiting.section is not None:
            self._size_bytes -= waiting.section.header.size_bytes + len(waiting.section.data)


def _table(columns: Columns) -> Any:  # noqa: ANN401 - pyarrow has no types
    arrays = [columns.offset, columns.timestamp, columns.timestamp_type, columns.key, columns.value, columns.headers]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class ArchiveSource:
    """A table that `odradek pipeline archive` has made of the topic."""

    def __init__(self, path: str, topic: str) -> None:
        self._root, self._topic = Path(path), topic
        self._table = open_table(path)
        self.name = path

    def partitions(self) -> dict[int, tuple[int, int]]:
        """See `Source.partitions`."""
        return {
            place.partition: (one.start, one.end)
            for place, one in self._table.progress.items()
            if place.topic == self._topic
        }

    def tables(self, partition: int, start: int, end: int) -> Iterator[Any]:
        """See `Source.tables`. Raises PipelineError for a table without the raw columns.

        Files whose ranges of offsets overlap, as those of several days of one batch may, are read together.
        """
        spans = [
            (span.first, span.last, file.path)
            for file in self._table.files.values()
            for span in file.spans
            if span.topic == self._topic and span.partition == partition and span.last >= start and span.first < end
        ]
        for paths in _overlapping(spans):
            rows = pa.concat_tables([self._rows(path, partition, start, end) for path in paths])
            yield rows.sort_by("offset")

    def _rows(self, path: str, partition: int, start: int, end: int) -> Any:  # noqa: ANN401 - pyarrow has no types
        import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]

        table = cast("Any", pq).ParquetFile(self._root / path).read()
        missing = set(COLUMNS) - set(table.column_names)
        if missing:
            raise PipelineError(f"{self.name} was archived with --drop-raw: it lacks {', '.join(sorted(missing))}")
        return table.filter(_within(self._topic, partition, start, end)).select(list(COLUMNS)).cast(SCHEMA)


def _overlapping(spans: Iterable[tuple[int, int, str]]) -> Iterator[list[str]]:
    """The paths in groups, in order of offsets: what is in one group ends before the next one begins."""
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

    def __init__(self, path: str, topic: str) -> None:
        self._topic = topic
        self.name = path
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
