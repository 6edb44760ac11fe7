"""The archive job: plans, reads, writes and commits batch after batch."""

# pyright: reportUnknownMemberType=false, reportAttributeAccessIssue=false
# pyspark's types are incomplete

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from odradek.gateway.cli.output import Meter, counted
from odradek.pipeline.archiving import batch, failures, gaps, planning
from odradek.pipeline.archiving.options import (
    MAX_OFFSETS,
    TARGET_SIZE_BYTES,
    Archiving,
    PartitionBy,
    TableFormat,
)
from odradek.pipeline.archiving.parquet import ParquetSink
from odradek.pipeline.archiving.planning import Planned, Start
from odradek.pipeline.archiving.sink import Prepared, Sink, Staged
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.progress import OpenMeter, advancing
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.table.manifest import OffsetRange
from odradek.pipeline.table.reading import raw_schema
from odradek.pipeline.topic_partition import EARLIEST, LATEST, Offsets, TopicPartition
from odradek.pipeline.values.columns import Columns
from odradek.pipeline.values.parsing import Parsing
from odradek.pipeline.wire_client import READ_COMMITTED, TopicGoneError, WireClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
NO_LIMIT = 2**63
DEAD_LETTER = "dead letter"
WRITE_FAILED = "the batch was not written"


class Pace(Protocol):
    """Decides when the job continues, pauses and ends."""

    def goes_on(self) -> bool:
        """True if another batch may begin."""
        ...

    def wait_for_more(self) -> bool:
        """Called when there are no new records: wait, then return whether to check again."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait before a retry."""
        ...


def archive(
    spark: "SparkSession",
    topics: Sequence[str] | str,
    to: str,
    *,
    connection: Connection,
    table_format: TableFormat = "parquet",
    start: Start | None = None,
    group: str | None = None,
    value: Parsing | None = None,
    key: Parsing | None = None,
    drop_raw: bool = False,
    partition_by: PartitionBy = "none",
    max_offsets: int = MAX_OFFSETS,
    target_size_bytes: int = TARGET_SIZE_BYTES,
    allow_loss: bool = False,
    pace: Pace | None = None,
    meter: OpenMeter | None = None,
) -> Report:
    """Add new records of the topics to the table `to`: each (topic, partition, offset) exactly once, also after
    crashes.

    `to` is a path, or the name of a table for Iceberg. A topic that is new in the table begins at `start` (offset 0); a
    later run continues at the table's end. All records committed when the job begins are archived, or with a `pace` new
    ones until it ends the job, in batches of about `max_offsets` offsets, each committed atomically, in files of about
    `target_size_bytes`. The table's offsets are committed for the consumer group `group`. `meter` opens a progress
    line, given the number of offsets to archive. `value` and `key` add the columns `parsed` and `parsed_key`;
    `drop_raw` omits the raw columns that were parsed. `partition_by` creates directories by the record's timestamp in
    UTC.

    The report explains every offset without a record. It is incomplete if offsets were lost to retention (unless
    `allow_loss`) or are unexplained. Temporary failures are retried for half a minute. Raises PipelineError with the
    reason: a topic does not exist, was deleted or recreated, the path is not a table of this job, settings differ from
    the table's, no space, no broker; FencedError when another archive job has taken the table over.
    """
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    options = Archiving(
        names, str(to), table_format, start or Start(), group, value, key, drop_raw, partition_by, max_offsets,
        target_size_bytes, allow_loss,
    )  # fmt: skip
    with WireClient(connection) as client:
        return Job(
            spark, connection, client, options, pace or Once(), meter or (lambda _: nullcontext(_Silent()))
        ).run()


class Once:
    """Runs until everything that was committed when the job began is archived."""

    def goes_on(self) -> bool:
        """See Pace."""
        return True

    def wait_for_more(self) -> bool:
        """See Pace."""
        return False

    def pause(self, seconds: float) -> None:
        """See Pace."""
        import time

        time.sleep(seconds)


class _Silent:
    def advance(self, records: int, size_bytes: int) -> None:
        pass


@dataclass(slots=True)
class _Done:
    """The progress of a run."""

    partitions: dict[TopicPartition, PartitionReport] = field(default_factory=dict[TopicPartition, PartitionReport])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    batches: int = 0

    def add(self, ranges: Sequence[OffsetRange]) -> None:
        self.batches += 1
        for one in ranges:
            place = TopicPartition(one.topic, one.partition)
            total = self.partitions.setdefault(place, PartitionReport(*place, one.start, one.start))
            total.to_offset = one.end
            total.read += one.read
            total.written += one.written
            total.skipped.update(one.skipped)


class Job:
    """One run of the archive job."""

    def __init__(
        self,
        spark: "SparkSession",
        connection: Connection,
        client: WireClient,
        options: Archiving,
        pace: Pace,
        meter: OpenMeter,
    ) -> None:
        self._spark, self._connection, self._client = spark, connection, client
        self._options, self._pace, self._open_meter = options, pace, meter
        self._meter: Meter = _Silent()
        self._sink = open_sink(spark, options)
        self._columns = Columns(spark, options.value, options.key, drop_raw=options.drop_raw)
        self._goal: Offsets = {}
        self._topic_ids: dict[str, str] = {}
        self._partitions: dict[str, int] = {}
        self._done = _Done()

    def run(self) -> Report:
        """Archive until the pace ends it; see `archive`."""
        self._attempt(self._look)
        schema = _with_partitions(raw_schema(), self._options.partition_by)
        self._attempt_once(lambda: self._sink.open(self._columns.first_schema(schema)))
        self._check_topics()
        self._publish()
        todo = planning.total(self._attempt(lambda: self._plan(NO_LIMIT)))
        with self._open_meter(todo) as self._meter:
            self._run_batches()
        return self._report()

    def _run_batches(self) -> None:
        while self._pace.goes_on():
            planned = self._attempt(self._plan)
            if planned:
                self._attempt(self._archive)
            elif self._pace.wait_for_more():
                self._attempt(self._look)
            else:
                break

    def _attempt(self, action: Callable[[], T]) -> T:
        """Call `action`; after a failure that may be temporary, call it again after a pause."""
        for pause_s in (*failures.PAUSES_S, None):
            try:
                return action()
            except Exception as error:
                if (final := failures.final(error, self._options.to)) is not None:
                    raise final from error
                if pause_s is None:
                    raise PipelineError(f"{self._options.to}: {failures.reason(error)}") from error
                self._pace.pause(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def _attempt_once(self, action: Callable[[], None]) -> None:
        """Call `action`; errors of the file system are mapped to PipelineError."""
        try:
            action()
        except OSError as error:
            raise failures.final(error, self._options.to) or PipelineError(str(error)) from error

    # Planning

    def _look(self) -> None:
        """Read the topics' committed end offsets, and check that they are still the topics of the table."""
        self._check_topics()
        places = [TopicPartition(name, index) for name, count in self._partitions.items() for index in range(count)]
        self._goal = self._client.list_offsets(places, LATEST, READ_COMMITTED)

    def _check_topics(self) -> None:
        """Raise TopicGoneError if a topic does not exist, or its id differs from the table's."""
        names = self._options.topics
        found = self._client.topics(names)
        if missing := [name for name in names if name not in found]:
            raise_missing(self._connection, missing)
        self._topic_ids = {name: str(found[name].topic_id) for name in names}
        self._partitions = {name: len(found[name].leaders) for name in names}
        for name, known in self._sink.topic_ids.items():
            if self._topic_ids.get(name, known) != known:
                raise_created_again(name, known, self._topic_ids[name], self._options.to)

    def _plan(self, max_offsets: int | None = None) -> list[Planned]:
        places = list(self._goal)
        done = {place: offset for place, offset in self._sink.done.items() if place in self._goal}
        earliest = self._client.list_offsets(places, EARLIEST)
        begin = self._begin([place for place in places if place not in done], earliest)
        return planning.plan(
            done, begin, planning.Bounds(earliest, self._goal), max_offsets or self._options.max_offsets
        )

    def _begin(self, places: Sequence[TopicPartition], earliest: Offsets) -> Offsets:
        """Return the start offsets of new partitions: 0, or the user's choice if the whole topic is new."""
        known = {place.topic for place in self._sink.done}
        start = Start()
        found = {place: (start if place.topic in known else self._options.start).of(place) for place in places}
        return {place: self._position(place, at) for place, at in found.items()}

    def _position(self, place: TopicPartition, at: int) -> int:
        end = self._goal[place]
        if at == EARLIEST:
            return 0
        if at == LATEST:
            return end
        if place in self._options.start.places:
            return min(at, end)
        later = self._client.list_offsets([place], at)[place]
        return min(later, end) if later >= 0 else end

    # One batch

    def _archive(self) -> None:
        """Plan a batch from the current state of table and cluster, and archive it."""
        self._sink.refresh()
        self._check_topics()
        planned = self._plan()
        offsets = planning.total(planned)
        if offsets:
            with advancing(self._spark, self._meter, offsets):
                self._archive_records(planned)
        elif planned:
            self._commit_nothing(planned)

    def _archive_records(self, planned: Sequence[Planned]) -> None:
        cores = self._spark.sparkContext.defaultParallelism
        tasks = batch.tasks_for(planned, self._sink.record_bytes, self._options.target_size_bytes, cores)
        raw, is_ordered = batch.read_topics(self._spark, self._connection, planned, tasks)
        if not self._columns.wanted and self._options.table_format == "parquet":
            self._write(planned, raw, None, is_ordered=is_ordered)
            return
        kept = raw.persist(_on_disk())
        try:
            self._write(planned, kept, batch.count_records(kept), is_ordered=is_ordered)
        finally:
            kept.unpersist()

    def _write(
        self, planned: Sequence[Planned], raw: "DataFrame", read: dict[TopicPartition, int] | None, *, is_ordered: bool
    ) -> None:
        """Write a batch and commit it. `read` are the counts of `raw` if it is cached; else the files are counted."""
        split = self._columns.split(raw, self._sink.schema)
        self._done.notes |= dict.fromkeys(split.notes)
        partition_by = self._options.partition_by
        frame = batch.in_order(
            batch.with_partition_columns(split.parsed, partition_by), partition_by, is_ordered=is_ordered
        )
        staged = self._sink.write(Prepared(frame, split.dead_letters, split.schema))
        try:
            if read is not None and sum(staged.written.values()) < sum(read.values()):
                staged.write_dead_letters()
            found = batch.find_gaps(raw if read is not None else staged.frame(), planned, read or dict(staged.written))
            ranges = [self._range(one, found[one.place], staged) for one in planned]
            check_counts(ranges)
            self._check_topics()
            self._committed(staged, ranges)
        except BaseException:
            staged.discard()
            raise

    def _range(self, one: Planned, found: batch.Counted, staged: Staged) -> OffsetRange:
        """Return the report on a partition's offsets."""
        skipped = Counter(one.skipped)
        skipped[DEAD_LETTER] += staged.dead.get(one.place, 0)
        if found.gaps:
            skipped.update(gaps.explain(self._client, one.place, found.gaps))
        written = staged.written.get(one.place, 0)
        return OffsetRange(*one.place, one.start, one.end, found.records, written, dict(+skipped))

    def _commit_nothing(self, planned: Sequence[Planned]) -> None:
        """Commit lost offsets and empty partitions, without records."""
        staged = self._sink.write(Prepared(None, None, self._sink.schema))
        ranges = [OffsetRange(*one.place, one.start, one.end, skipped=dict(one.skipped)) for one in planned]
        self._committed(staged, ranges)

    def _committed(self, staged: Staged, ranges: Sequence[OffsetRange]) -> None:
        staged.commit(ranges, {name: self._topic_ids[name] for name in {one.topic for one in ranges}})
        self._done.add(ranges)
        self._publish()

    def _publish(self) -> None:
        """Commit the table's offsets for lag tools. A failure is only reported: the job uses the offsets in the
        table.
        """
        if self._options.group is None:
            return
        offsets = {place: offset for place, offset in self._sink.done.items() if place.topic in self._options.topics}
        try:
            with Cluster(self._connection) as cluster:
                cluster.commit(self._options.group, offsets)
        except PipelineError as error:
            self._done.notes[f"group {self._options.group!r} was not told: {error}"] = None

    def _report(self) -> Report:
        report = Report("archive", [self._done.partitions[place] for place in sorted(self._done.partitions)])
        report.notes += list(self._done.notes)
        for one in report.partitions:
            name = f"{one.topic}-{one.partition}"
            if (lost := one.skipped[planning.RETENTION]) and not self._options.allow_loss:
                report.incomplete(
                    f"{name}: {counted(lost, 'offset')} between {one.from_offset:,} and {one.to_offset:,} were deleted "
                    "by retention before they were archived"
                )
            if unknown := one.skipped[gaps.UNEXPLAINED]:
                report.incomplete(f"{name}: {counted(unknown, 'offset')} without a record and without an explanation")
        report.details = {"table": self._options.to, "batches": self._done.batches}
        return report


def open_sink(spark: "SparkSession", options: Archiving) -> Sink:
    """Return the sink of the table, before `open`."""
    if options.table_format == "iceberg":
        from odradek.pipeline.archiving.iceberg import IcebergSink

        return IcebergSink(spark, options.to, options.settings)
    return ParquetSink(spark, options.to, options.settings)


def check_counts(ranges: Sequence[OffsetRange]) -> None:
    """Raise PipelineError unless every offset of a batch was written, is a dead letter, or has a reason for its
    absence.
    """
    for one in ranges:
        accounted = one.written + sum(one.skipped.values())
        if accounted != one.end - one.start or one.written + one.skipped.get(DEAD_LETTER, 0) != one.read:
            raise PipelineError(
                f"{WRITE_FAILED}: {one.topic}-{one.partition} has {one.end - one.start:,} offsets from {one.start:,}, "
                f"of which {one.read:,} were read, {one.written:,} written and {dict(one.skipped)} skipped"
            )


def raise_missing(connection: Connection, names: Sequence[str]) -> None:
    """Raise the error for topics that do not exist (any more)."""
    what = ", ".join(repr(name) for name in names)
    raise TopicGoneError(
        names[0], f"{connection.bootstrap} has no topic {what}. What was archived before is in the table"
    )


def raise_created_again(name: str, known: str, found: str, path: str) -> None:
    """Raise the error for a topic whose id differs from the table's."""
    raise TopicGoneError(
        name,
        f"topic {name!r} was deleted and created again (its id was {known} and is {found}): its offsets begin anew. "
        f"{path} keeps the old one; archive the new one to another path",
    )


def _with_partitions(schema: Any, partition_by: str) -> Any:  # noqa: ANN401 - a StructType
    from pyspark.sql.types import StructType

    for name in batch.PARTITION_COLUMNS[partition_by]:
        if name not in schema.fieldNames():
            schema = StructType([*schema.fields, *StructType.fromDDL(f"{name} {batch.PARTITION_TYPES[name]}").fields])
    return schema


def _on_disk() -> Any:  # noqa: ANN401 - a StorageLevel
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY
