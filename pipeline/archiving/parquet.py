"""The archive sink for a table of Parquet files with the log of `odradek.pipeline.table`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyspark's types are incomplete

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.archiving.batch import PARTITION_COLUMNS
from odradek.pipeline.archiving.sink import Prepared
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.log import STAGING, Log, Writer
from odradek.pipeline.table.manifest import DataFile, Entry, OffsetRange, Span
from odradek.pipeline.table.opening import open_files
from odradek.pipeline.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_OPTIONS: Final = {
    "compression": "zstd",
    "parquet.block.size": "1048576",
    "parquet.page.size.row.check.min": "100",
    "parquet.page.size.row.check.max": "1000",
    "parquet.enable.dictionary": "false",
}
"""Row groups of 1 MiB, about 1,000 records of 1 KB: an offset is found in a millisecond, and scans are as fast as with
large groups.
"""
RECORD_BYTES: Final = 1_000.0
"""The assumed size of a record before the table has any."""


class ParquetSink:
    """The table at a path. `open` fences other archive jobs."""

    def __init__(self, spark: "SparkSession", path: str, settings: Mapping[str, Any]) -> None:
        self._spark, self._settings = spark, dict(settings)
        self._log = Log(open_files(path, spark))
        self._writer: Writer | None = None
        self.path = path

    def open(self, schema: Any) -> None:  # noqa: ANN401 - a StructType
        """Create the table or take it over. Raises PipelineError if the folder is not a table, or was created with
        other settings.
        """
        if self._log.exists:
            self._compare(self._log.load().settings)
        elif self._log.files.names():
            raise PipelineError(
                f"{self.path} exists and is no table of `odradek pipeline archive`: choose another path"
            )
        else:
            self._log.create(self._settings, schema.jsonValue())
        self._writer = self._log.claim("archive")

    def _compare(self, settings: Mapping[str, Any]) -> None:
        for name, wanted in self._settings.items():
            if settings.get(name) != wanted:
                raise PipelineError(
                    f"{self.path} was made with --{name} {settings.get(name)}, not {wanted}: "
                    "use the same, or another path"
                )

    def refresh(self) -> None:
        """See Sink. Raises FencedError where another job has taken the table over."""
        self._log.load()
        assert self._writer is not None
        self._writer.check()

    @property
    def done(self) -> dict[TopicPartition, int]:
        """The next offset to archive of each partition."""
        return self._log.table.offsets

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the table's topics."""
        return self._log.table.topic_ids

    @property
    def schema(self) -> Any:  # noqa: ANN401 - a StructType
        """The newest schema of the table."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._log.table.schemas[-1])

    @property
    def record_bytes(self) -> float:
        """The average size of a record in the table's files."""
        table = self._log.table
        size = sum(file.size_bytes for file in table.files.values())
        return size / table.records if table.records else RECORD_BYTES

    def write(self, prepared: Prepared) -> "_Staged":
        """Write a batch to a staging folder, which readers ignore; the folder is deleted if this fails."""
        assert self._writer is not None
        staged = _Staged(self._spark, self._log, self._writer, self._writer.new_staging(), prepared)
        try:
            staged.write(self._settings["partition-by"])
        except BaseException:
            staged.discard()
            raise
        return staged


class _Staged:
    """A batch in its staging folder."""

    def __init__(self, spark: "SparkSession", log: Log, writer: Writer, staging: str, prepared: Prepared) -> None:
        self._spark, self._log, self._writer, self._staging, self._prepared = spark, log, writer, staging, prepared
        self._folder = f"{log.files.root}/{STAGING}/{staging}"
        self._schema = prepared.schema.jsonValue()
        self._is_new_schema = self._schema != log.table.schemas[-1]
        self._files: list[DataFile] = []
        self._dead: list[DataFile] = []

    def write(self, partition_by: str) -> None:
        """Write and count the files."""
        index = len(self._log.table.schemas) - (0 if self._is_new_schema else 1)
        directories = PARTITION_COLUMNS[partition_by]
        if self._prepared.frame is not None:
            self._save(self._prepared.frame, "data", directories)
            self._files = read_spans(self._spark, f"{self._folder}/data", len(directories), index)

    def write_dead_letters(self) -> None:
        """Write and count the files of dead letters."""
        assert self._prepared.dead_letters is not None
        self._save(self._prepared.dead_letters, "dead-letters", ())
        self._dead = read_spans(self._spark, f"{self._folder}/dead-letters", 0, 0)

    def _save(self, frame: "DataFrame", name: str, directories: Sequence[str]) -> None:
        frame.write.options(**FILE_OPTIONS).partitionBy(*directories).parquet(f"{self._folder}/{name}")

    @property
    def written(self) -> dict[TopicPartition, int]:
        """The number of records of each partition in the written files."""
        return _by_place(self._files)

    @property
    def dead(self) -> dict[TopicPartition, int]:
        """The number of dead letters of each partition."""
        return _by_place(self._dead)

    def frame(self) -> "DataFrame":
        """Return the written offsets, read from the files."""
        return self._spark.read.parquet(f"{self._folder}/data").select("topic", "partition", "offset")

    def commit(self, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, str]) -> None:
        """Add the batch to the table. Raises FencedError."""
        entry = Entry(
            number=0, kind="batch", role="archive", writer="", at_ms=0, staging=self._staging, ranges=tuple(ranges),
            topic_ids=dict(topic_ids), files=tuple(self._files), dead_letters=tuple(self._dead),
            schema=self._schema if self._is_new_schema else None,
        )  # fmt: skip
        self._writer.commit(entry)

    def discard(self) -> None:
        """Delete the batch."""
        self._writer.discard(self._staging)


def _by_place(files: Sequence[DataFile]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for span in (span for file in files for span in file.spans):
        place = TopicPartition(span.topic, span.partition)
        found[place] = found.get(place, 0) + span.records
    return found


def read_spans(spark: "SparkSession", folder: str, depth: int, schema: int) -> list[DataFile]:
    """Return the contents of a folder's Parquet files, read from them; `depth` is the number of directories above each.
    Files without records are omitted.
    """
    from pyspark.sql import functions as f

    place = ("topic", "partition")
    frame = spark.read.schema("topic string, partition int, offset bigint").parquet(folder)
    rows = (
        frame.select(*place, "offset", "_metadata.file_path", "_metadata.file_size")
        .groupBy("file_path", "file_size", *place)
        .agg(f.min("offset"), f.max("offset"), f.count("*"))
    ).collect()
    by_file: dict[tuple[str, int], list[Span]] = {}
    for path, size, topic, partition, first, last, records in rows:
        name = "/".join(path.split("/")[-1 - depth :])
        by_file.setdefault((name, size), []).append(Span(topic, partition, first, last, records))
    return [
        DataFile(name, sum(span.records for span in spans), size, schema, tuple(sorted(spans, key=_span_order)))
        for (name, size), spans in sorted(by_file.items())
    ]


def _span_order(span: Span) -> tuple[str, int, int]:
    return span.topic, span.partition, span.first
