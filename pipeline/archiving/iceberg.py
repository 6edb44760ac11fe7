"""The sink for an Iceberg table: one append per batch, with the offsets in the snapshot's summary. So data and offsets
are committed together, and a table that is rolled back is resumed from the offsets of that snapshot. Dead letters are
appended first, to a table of their own with its own offsets, and skipped if that table has them already.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.archiving.batch import PARTITION_COLUMNS, count_records
from odradek.pipeline.archiving.parquet import RECORD_BYTES
from odradek.pipeline.archiving.sink import Prepared
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.log import FencedError
from odradek.pipeline.table.manifest import OffsetRange
from odradek.pipeline.table.reading import dead_letter_schema
from odradek.pipeline.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS: Final = "odradek.settings"
OFFSETS: Final = "odradek.offsets"
RANGES: Final = "odradek.ranges"
TOPIC_IDS: Final = "odradek.topic-ids"
PROPERTY: Final = "snapshot-property."
DEAD_LETTERS: Final = "_dead_letters"


class IcebergSink:
    """A table of the catalog in the session's settings. A job ends with FencedError if another one has changed the
    table's offsets since its batch was planned. Iceberg has no conditional append, so a change directly before the
    append is not found: run one job at a time.
    """

    def __init__(self, spark: "SparkSession", name: str, settings: Mapping[str, Any]) -> None:
        self._spark, self._settings, self.path = spark, dict(settings), name
        self._offsets: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._dead_offsets: dict[TopicPartition, int] = {}
        self._record_bytes = RECORD_BYTES

    def open(self, schema: Any) -> None:  # noqa: ANN401 - a StructType
        """See Sink."""
        if self._spark.catalog.tableExists(self.path):
            self._compare()
            self._load()
            return
        frame = self._spark.createDataFrame([], schema)
        columns = PARTITION_COLUMNS[self._settings["partition-by"]]
        writer = frame.writeTo(self.path).using("iceberg").tableProperty(SETTINGS, json.dumps(self._settings))
        writer = writer.tableProperty("write.spark.accept-any-schema", "true")  # for the option mergeSchema
        (writer.partitionedBy(*map(frame.__getitem__, columns)) if columns else writer).create()

    def _compare(self) -> None:
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self.path}").collect()
        found = {row[0]: row[1] for row in rows}.get(SETTINGS)
        if found is None:
            raise PipelineError(
                f"{self.path} exists and is no table of `odradek pipeline archive`: choose another name"
            )
        if json.loads(found) != self._settings:
            raise PipelineError(f"{self.path} was made with the settings {found}, not {json.dumps(self._settings)}")

    def refresh(self) -> None:
        """See Sink."""
        self._load()

    def _load(self) -> None:
        summary = self._summary(self.path)
        self._offsets = _offsets(summary)
        self._topic_ids = json.loads(summary.get(TOPIC_IDS, "{}"))
        records = int(summary.get("total-records", 0))
        self._record_bytes = int(summary.get("total-files-size", 0)) / records if records else RECORD_BYTES
        if records and not self._offsets:
            raise PipelineError(f"{self.path}: the snapshots with the archive's offsets have expired")
        dead = f"{self.path}{DEAD_LETTERS}"
        if self._spark.catalog.tableExists(dead):
            self._dead_offsets = _offsets(self._summary(dead))

    def _summary(self, name: str) -> dict[str, str]:
        """Return the newest snapshot's summary with the offsets of the newest one that has any: rewrites of files do
        not set them.
        """
        self._spark.sql(f"REFRESH TABLE {name}")
        rows = self._spark.sql(
            f"SELECT s.summary FROM {name}.history h JOIN {name}.snapshots s ON h.snapshot_id = s.snapshot_id "  # noqa: S608
            "WHERE h.is_current_ancestor ORDER BY h.made_current_at DESC"
        ).collect()
        newest = dict(rows[0][0]) if rows else {}
        ours = next((dict(row[0]) for row in rows if OFFSETS in row[0]), {})
        return newest | {name: ours[name] for name in (OFFSETS, TOPIC_IDS) if name in ours}

    @property
    def done(self) -> dict[TopicPartition, int]:
        """See Sink."""
        return self._offsets

    @property
    def topic_ids(self) -> dict[str, str]:
        """See Sink."""
        return self._topic_ids

    @property
    def schema(self) -> Any:  # noqa: ANN401 - a StructType
        """See Sink."""
        return self._spark.table(self.path).schema

    @property
    def record_bytes(self) -> float:
        """See Sink."""
        return self._record_bytes

    def write(self, prepared: Prepared) -> "_Appended":
        """See Sink. Nothing is written until the commit, which is the append."""
        refuse_growth(self.path, self.schema, prepared.schema)
        return _Appended(self._spark, self, prepared)

    def add(
        self,
        frame: "DataFrame",
        dead: "DataFrame | None",
        ranges: Sequence[OffsetRange],
        topic_ids: Mapping[str, str],
    ) -> None:
        """Append the dead letters, then the batch. Raises FencedError if the table's offsets have changed."""
        before = dict(self._offsets)
        self._load()
        if self._offsets != before:
            raise FencedError(f"{self.path}: another `odradek pipeline archive` has taken this table over")
        ends = before | {TopicPartition(one.topic, one.partition): one.end for one in ranges}
        if dead is not None:
            self._add_dead_letters(dead, ends)
        summary = {
            OFFSETS: _as_text(ends),
            TOPIC_IDS: json.dumps(self._topic_ids | dict(topic_ids)),
            RANGES: json.dumps(
                [[*(one.topic, one.partition, one.start, one.end), dict(one.skipped)] for one in ranges]
            ),
        }
        self._append(frame, self.path, summary)
        self._load()

    def _add_dead_letters(self, dead: "DataFrame", ends: Mapping[TopicPartition, int]) -> None:
        from pyspark.sql import functions as f

        name = f"{self.path}{DEAD_LETTERS}"
        if not self._spark.catalog.tableExists(name):
            self._spark.createDataFrame([], dead_letter_schema()).writeTo(name).using("iceberg").create()
        known = [
            (f.col("topic") == place.topic) & (f.col("partition") == place.partition) & (f.col("offset") < offset)
            for place, offset in self._dead_offsets.items()
        ]
        new = dead.where(~reduce(lambda left, right: left | right, known)) if known else dead
        self._append(new, name, {OFFSETS: _as_text(self._dead_offsets | dict(ends))})

    def _append(self, frame: "DataFrame", name: str, summary: Mapping[str, str]) -> None:
        writer = frame.writeTo(name).option("mergeSchema", "true")
        for key, value in summary.items():
            writer = writer.option(f"{PROPERTY}{key}", value)
        writer.append()


class _Appended:
    """A batch that is appended by its commit."""

    def __init__(self, spark: "SparkSession", sink: IcebergSink, prepared: Prepared) -> None:
        self._sink, self._dead_frame = sink, prepared.dead_letters
        self._frame = prepared.frame if prepared.frame is not None else spark.createDataFrame([], prepared.schema)
        self.written = count_records(self._frame)
        self.dead: dict[TopicPartition, int] = {}

    def write_dead_letters(self) -> None:
        """See Staged."""
        assert self._dead_frame is not None
        self.dead = count_records(self._dead_frame)

    def frame(self) -> "DataFrame":
        """See Staged."""
        return self._frame

    def commit(self, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, str]) -> None:
        """See Staged."""
        self._sink.add(self._frame, self._dead_frame if self.dead else None, ranges, topic_ids)

    def discard(self) -> None:
        """Do nothing: nothing was written."""


def _offsets(summary: Mapping[str, str]) -> dict[TopicPartition, int]:
    found = json.loads(summary.get(OFFSETS, "[]"))
    return {TopicPartition(topic, partition): offset for topic, partition, offset in found}


def _as_text(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps([[*place, offset] for place, offset in sorted(offsets.items())])


def refuse_growth(path: str, old: Any, new: Any, field: str = "") -> None:  # noqa: ANN401 - Spark's types
    """Raise PipelineError for a type widening that Iceberg does not support, such as bigint to double."""
    from pyspark.sql import types as t

    if isinstance(old, t.StructType) and isinstance(new, t.StructType):
        known = {one.name: one.dataType for one in old.fields}
        for one in new.fields:
            if one.name in known:
                refuse_growth(path, known[one.name], one.dataType, f"{field}.{one.name}".lstrip("."))
    elif isinstance(old, t.ArrayType) and isinstance(new, t.ArrayType):
        refuse_growth(path, old.elementType, new.elementType, f"{field}[]")
    elif isinstance(old, t.MapType) and isinstance(new, t.MapType):
        refuse_growth(path, old.valueType, new.valueType, f"{field}{{}}")
    elif old != new and (old.simpleString(), new.simpleString()) not in {("int", "bigint"), ("float", "double")}:
        raise PipelineError(
            f"{path}: {field} is {old.simpleString()}, and the records need {new.simpleString()}, which Iceberg does "
            "not widen it to. Give --schema with the wider type and another table, or archive as Parquet"
        )
