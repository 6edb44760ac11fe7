"""The tasks on Spark's executors: choosing a partition for each record, and writing the records of one partition."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# pyarrow has no types

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.worker import spare_worker
from odradek.pipeline.writing.ahead import Ahead
from odradek.pipeline.writing.encoding import Producer, Row, in_batches
from odradek.pipeline.writing.producing import PartitionProducer

if TYPE_CHECKING:
    import pyarrow as pa

PLACED: Final = (
    "target int, key binary, value binary, headers array<struct<key: string, value: binary>>, timestamp_ms bigint, "
    "position bigint"
)
RESULT: Final = "partition int, records bigint, error string"
_POSITIVE: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Placing:
    """Chooses each record's partition: the record's own, else by key as Kafka's producers do, else round-robin."""

    partitions: int

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Add the column `target` to key, value, headers, timestamp_ms, position; `partition` is dropped."""
        import pyarrow as pa

        turn = itertools.count()
        names = ["key", "value", "headers", "timestamp_ms", "position"]
        for batch in batches:
            keys, own = batch.column("key").to_pylist(), batch.column("partition").to_pylist()
            targets = [self._target(key, one, turn) for key, one in zip(keys, own, strict=True)]
            columns = [pa.array(targets, pa.int32()), *map(batch.column, names)]
            yield pa.RecordBatch.from_arrays(columns, ["target", *names])
        spare_worker()

    def _target(self, key: bytes | None, own: int | None, turn: "Iterator[int]") -> int:
        from aiokafka.partitioner import murmur2

        if own is not None:
            if not 0 <= own < self.partitions:
                raise ValueError(f"there is no partition {own}, but {self.partitions}")
            return own
        number = next(turn) if key is None else murmur2(key) & _POSITIVE
        return number % self.partitions


@dataclass(frozen=True, slots=True)
class Task:
    """Writes the records of one partition in the transaction that the driver has begun.

    `sequences` has the next sequence number of each partition.
    """

    connection: Connection
    topic: str
    codec: int
    limit_bytes: int
    transactional_id: str
    producer: Producer
    sequences: Mapping[int, int]

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Write the records; yields one row of `RESULT`, or none if there are no records."""
        import pyarrow as pa

        rest = iter(batches)
        first = next((batch for batch in rest if batch.num_rows), None)
        if first is None:
            return
        partition: int = first.column("target")[0].as_py()
        count, error = self._write(partition, _rows(itertools.chain([first], rest)))
        arrays = [pa.array([partition], pa.int32()), pa.array([count], pa.int64()), pa.array([error], pa.string())]
        yield pa.RecordBatch.from_arrays(arrays, ["partition", "records", "error"])
        spare_worker()

    def _write(self, partition: int, rows: Iterator[Row]) -> tuple[int, str | None]:
        written = 0
        producer = self.producer._replace(sequence=self.sequences[partition])
        place = TopicPartition(self.topic, partition)
        try:
            with WireClient(self.connection) as client:
                target = PartitionProducer(client, place, self.codec, producer, self.transactional_id)
                with Ahead(target.append_parted) as ahead:
                    for batch in in_batches(rows, self.limit_bytes):
                        ahead.put(batch)
                        written += len(batch)
        except PipelineError as error:
            return written, str(error)
        return written, None


def _rows(batches: "Iterable[pa.RecordBatch]") -> Iterator[Row]:
    numbers = itertools.count()
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("timestamp_ms", "key", "value", "headers"))
        for time_ms, key, value, headers in zip(*columns, strict=True):
            listed = [(one["key"], one["value"]) for one in headers or ()]
            yield Row(next(numbers), time_ms, 0, key, value, listed)
