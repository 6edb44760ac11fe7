"""The tasks on Spark's executors: each reads the rows of one partition from the table's files, and writes them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# pyarrow has no types

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.exact import Gaps, import_rows, produce_rows
from odradek.pipeline.restoring.plan import Rows
from odradek.pipeline.restoring.renumbered import Origin, renumber_rows
from odradek.pipeline.restoring.writing import Written
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.worker import spare_worker
from odradek.pipeline.writing.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa

RESULT: Final = (
    "partition int, records bigint, filled bigint, present bigint, met_others_at array<bigint>, error string"
)


class Way(Enum):
    """The method of writing records to the target."""

    IMPORT = "import"
    PRODUCE = "produce"
    RENUMBER = "renumber"


class Work(NamedTuple):
    """The rows of one partition to write: from `begin` up to, but excluding, `end`."""

    rows: Rows
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Task:
    """The parameters common to all tasks of a job; a task is identified by the number of its `work`.

    `begins` are the requested first offsets, `move_start` the partitions whose log start becomes the offset of their
    first row, `gapless` the partitions in which no missing offset is filled.
    """

    connection: Connection
    way: Way
    from_topic: str
    to_topic: str
    codec: int
    limit_bytes: int
    work: Sequence[Work]
    begins: dict[int, int] = field(default_factory=dict[int, int])
    move_start: frozenset[int] = frozenset()
    gapless: frozenset[int] = frozenset()

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Do the work of each given number; yields one row of `RESULT` for each."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.done(self.work[number])
        spare_worker()

    def done(self, work: Work) -> "pa.RecordBatch":
        """Write the rows of one partition, and return the result."""
        import pyarrow as pa

        written, error = self._write(work)
        partition = work.rows.place.partition
        columns = [partition, written.records, written.filled, written.present, written.met_others_at, error]
        types = [pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.list_(pa.int64()), pa.string()]
        names = [part.split()[0] for part in RESULT.split(", ")]
        arrays = [pa.array([value], kind) for value, kind in zip(columns, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names)

    def _write(self, work: Work) -> tuple[Written, str | None]:
        place = TopicPartition(self.to_topic, work.rows.place.partition)
        written = Written()
        with WireClient(self.connection) as client:
            try:
                self._write_rows(client, place, work.rows.read(work.begin, work.end), written)
            except (PipelineError, ValueError, OSError) as error:  # a duplicate offset, a missing file
                return written, str(error)
        return written, None

    def _write_rows(self, client: WireClient, place: TopicPartition, rows: Iterable[Columns], written: Written) -> None:
        partition = place.partition
        if self.way is Way.IMPORT:
            import_rows(client, place, rows, self.codec, written)
        elif self.way is Way.PRODUCE:
            gaps = Gaps(move_start=partition in self.move_start, gapless=partition in self.gapless)
            produce_rows(client, place, rows, self.codec, self.limit_bytes, written, gaps)
        else:
            origin = Origin(TopicPartition(self.from_topic, partition), self.begins[partition])
            renumber_rows(client, place, rows, self.codec, self.limit_bytes, origin, written)
