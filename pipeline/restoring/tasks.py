"""What Spark's executors run: each task has all rows of one partition, in the order of their offsets."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# pyarrow has no types

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.cluster import TopicPartition
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.exact import Gaps, import_rows, produce_rows
from odradek.pipeline.restoring.renumbered import Origin, renumber_rows
from odradek.pipeline.restoring.writing import Written
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.writing.encoding import Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

RESULT: Final = (
    "partition int, records bigint, filled bigint, present bigint, met_others_at array<bigint>, error string"
)


class Way(Enum):
    """How records come to the target."""

    IMPORT = "import"
    PRODUCE = "produce"
    RENUMBER = "renumber"


@dataclass(frozen=True, slots=True)
class Task:
    """What all tasks of a job are told.

    `begins` are the offsets from which on rows were asked for, `move_start` the partitions whose log is to start at
    their first row, `gapless` those in which no offset is to be filled.
    """

    connection: Connection
    way: Way
    from_topic: str
    to_topic: str
    codec: int
    limit_bytes: int
    begins: dict[int, int] = field(default_factory=dict[int, int])
    move_start: frozenset[int] = frozenset()
    gapless: frozenset[int] = frozenset()

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Write the rows of one partition; yields one row of `RESULT`, or none where there are no rows."""
        import pyarrow as pa

        rest = iter(batches)
        first = next((batch for batch in rest if batch.num_rows), None)
        if first is None:
            return
        partition: int = first.column(0)[0].as_py()
        rows = itertools.chain.from_iterable(map(rows_of, itertools.chain([first], rest)))
        written, error = self._write(partition, rows)
        columns = [partition, written.records, written.filled, written.present, written.met_others_at, error]
        types = [pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.list_(pa.int64()), pa.string()]
        names = [part.split()[0] for part in RESULT.split(", ")]
        arrays = [pa.array([value], kind) for value, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names)

    def _write(self, partition: int, rows: Iterator[Row]) -> tuple[Written, str | None]:
        place = TopicPartition(self.to_topic, partition)
        written = Written()
        with WireClient(self.connection) as client:
            try:
                self._write_rows(client, place, rows, written)
            except (PipelineError, ValueError) as error:  # ValueError: offsets that do not rise
                return written, str(error)
        return written, None

    def _write_rows(self, client: WireClient, place: TopicPartition, rows: Iterator[Row], written: Written) -> None:
        partition = place.partition
        if self.way is Way.IMPORT:
            import_rows(client, place, rows, self.codec, written)
        elif self.way is Way.PRODUCE:
            gaps = Gaps(move_start=partition in self.move_start, gapless=partition in self.gapless)
            produce_rows(client, place, rows, self.codec, self.limit_bytes, written, gaps)
        else:
            origin = Origin(TopicPartition(self.from_topic, partition), self.begins[partition])
            renumber_rows(client, place, rows, self.codec, self.limit_bytes, origin, written)


def columns_of() -> "list[Column]":
    """What tasks are given of each row."""
    from pyspark.sql import functions as f

    time = f.unix_millis("timestamp").alias("timestamp_ms")
    return [*map(f.col, ("partition", "offset")), time, *map(f.col, ("timestampType", "key", "value", "headers"))]


def rows_of_table(rows: "DataFrame") -> Iterator[tuple[int, Row]]:
    """A few rows with `columns_of`, here and not in a task, each with its partition."""
    for batch in rows.toArrow().to_batches():
        yield from zip(batch.column(0).to_pylist(), rows_of(batch), strict=True)


def rows_of(batch: "pa.RecordBatch") -> Iterator[Row]:
    """The rows of an Arrow batch: partition, offset, time in ms, timestamp type, key, value, headers."""
    _, offsets, times, types, keys, values, headers = batch.columns
    columns: list[Iterable[Any]] = [offsets.to_pylist(), times.to_pylist(), types.to_pylist()]
    columns += [_binary(keys), _binary(values), _headers(headers)]
    return map(Row._make, zip(*columns, strict=True))


def _binary(column: Any) -> Iterable[bytes | None]:  # noqa: ANN401 - pyarrow has no types
    return itertools.repeat(None, len(column)) if column.null_count == len(column) else column.to_pylist()


def _headers(column: Any) -> Iterable[list[tuple[str, bytes | None]]]:  # noqa: ANN401 - pyarrow has no types
    if column.null_count == len(column) or not len(column.flatten()):
        return itertools.repeat([], len(column))
    return [
        [(header["key"], header["value"]) for header in headers] if headers else [] for headers in column.to_pylist()
    ]
