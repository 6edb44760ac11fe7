"""The restore job."""

# pyright: reportUnknownMemberType=false
# pyarrow, whose types are parameters of tasks, has no type hints

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.gateway.cli.output import Meter, meter
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.restoring import plan
from odradek.pipeline.restoring.bounds import Bound
from odradek.pipeline.restoring.plan import Selected, Share
from odradek.pipeline.restoring.source import Source, open_source
from odradek.pipeline.restoring.target import Target, check_prefixes, check_records, move_starts, open_target
from odradek.pipeline.restoring.tasks import RESULT, Task, Way, Work
from odradek.pipeline.topic_partition import LATEST
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.writing.encoding import CODECS
from odradek.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_MAX_FILL: Final = 100_000
PRODUCED_BATCH_BYTES: Final = 900_000
"""Below a broker's default limit of 1,048,588 bytes."""
_HEADROOM_BYTES: Final = 1_024
_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a restore. `max_fill` limits the number of filled offsets in all partitions together."""

    start: Bound = plan.NO_BOUND
    until: Bound = plan.NO_BOUND
    renumber: bool = False
    codec: str = "none"
    max_fill: int = DEFAULT_MAX_FILL


def restore(
    spark: "SparkSession",
    table: "str | Path | DataFrame",
    *,
    connection: Connection,
    to_topic: str,
    from_topic: str | None = None,
    start: Bound = plan.NO_BOUND,
    until: Bound = plan.NO_BOUND,
    renumber: bool = False,
    codec: str = "none",
    max_fill: int = DEFAULT_MAX_FILL,
    topic_config: Mapping[str, str] | None = None,
    shown: bool = False,
) -> Report:
    """Write a table's records into a topic, with partition, order, offset, key, value, headers and timestamps.

    `table` is a path of `odradek pipeline archive`, a folder of Parquet files or a DataFrame, with the columns of
    `format("kafka")` and headers. A missing topic is created, with `topic_config` and without a limit of age. A
    repeated run, also after a kill, continues at the topic's end and never duplicates a record. `renumber` appends the
    records with new offsets and headers `odradek.source.*`. `shown` draws a progress line on a terminal.

    Raises PipelineError before anything is written if the result would be wrong: the topic has other records, too few
    partitions, or gaps of more than `max_fill` offsets that this Kafka cannot leave out. Later failures of tasks
    are in the report, whose `complete` is False then. PipelineError is also raised after writing: if Spark fails, the
    broker cannot be reached for the verification, or the last record is found to be another client's.
    """
    options = Options(start, until, renumber, codec, max_fill)
    with (
        open_source(spark, table, from_topic) as source,
        Cluster(connection) as cluster,
        WireClient(connection) as client,
    ):
        selected = plan.select(source.rows, start, until)
        target = open_target(cluster, client, to_topic, source.partitions, topic_config or {})
        way = _way(client, renumber=renumber)
        job = _Job(spark, connection, source, target, way, options, client)
        return job.run(selected, shown=shown)


def _way(client: WireClient, *, renumber: bool) -> Way:
    if renumber:
        return Way.RENUMBER
    return Way.IMPORT if client.has_api(ApiKey.IMPORT_BATCHES) else Way.PRODUCE


@dataclass(frozen=True, slots=True)
class _Job:
    spark: "SparkSession"
    connection: Connection
    source: Source
    target: Target
    way: Way
    options: Options
    client: WireClient

    def run(self, selected: Mapping[int, Selected], *, shown: bool) -> Report:
        """Plan, check, write, and verify the result."""
        ends = {partition: 0 if self.way is Way.RENUMBER else self.target.ends[partition] for partition in selected}
        shares = plan.shares(self.source.rows, selected, ends)
        notes: list[str] = []
        if self.way is not Way.RENUMBER:
            notes = check_prefixes(self.client, self.target, shares, self.source.rows)
        if self.way is Way.PRODUCE:
            self._refuse_what_kafka_cannot(shares)
        total = sum(share.remaining for share in shares.values())
        with meter(f"to {self.target.topic}", total, shown=shown) as bar, self._watched(shares, bar):
            results = self._write(shares)
        report = self._report(shares, results)
        for note in notes:
            report.incomplete(note)
        if self.way is not Way.RENUMBER and report.complete:
            if self.way is Way.IMPORT:
                report.notes += move_starts(self.client, self.target, shares)
            self._check_ends(shares, results, report)
        return report

    # Planning

    def _refuse_what_kafka_cannot(self, shares: Mapping[int, Share]) -> None:
        if self.target.config.get("message.timestamp.type") == "LogAppendTime":
            raise PipelineError(
                f"topic {self.target.topic!r} has message.timestamp.type=LogAppendTime and would replace the timestamps"
            )
        gaps = sum(self._fill(partition, share) for partition, share in shares.items())
        if gaps > self.options.max_fill:
            raise PipelineError(
                f"{gaps:,} offsets have no record in the table, and this Kafka can leave out none: raise --max-fill "
                f"({self.options.max_fill:,}) to fill them, or give new offsets with --renumber"
            )

    def _fill(self, partition: int, share: Share) -> int:
        return share.missing + (0 if share.next is None else share.next - self.target.ends[partition])

    # Writing

    def _write(self, shares: Mapping[int, Share]) -> dict[int, Any]:
        """Return the result of each task by partition; partitions without rows to write have none."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        todo = {partition: share for partition, share in shares.items() if share.remaining}
        if not todo:
            return {}
        tasks = self.spark.range(0, len(todo), 1, len(todo)).mapInArrow(self._task(todo).run, RESULT)
        try:
            return {row["partition"]: row for row in tasks.collect()}
        except (PySparkException, Py4JJavaError) as error:  # a worker died
            raise PipelineError(f"Spark failed: {str(error).strip().splitlines()[0]}") from error

    def _task(self, todo: Mapping[int, Share]) -> Task:
        return Task(
            self.connection,
            self.way,
            self.source.topic,
            self.target.topic,
            CODECS[self.options.codec],
            self._limit_bytes(),
            [Work(self.source.rows[p], share.next or 0, share.selected.end) for p, share in todo.items()],
            {partition: share.selected.begin for partition, share in todo.items()},
            frozenset()
            if self._only_compacted()
            else frozenset(p for p, share in todo.items() if share.before is None),
            frozenset(partition for partition, share in todo.items() if self._is_gapless(share)),
        )

    def _is_gapless(self, share: Share) -> bool:
        """True if no marker has to be written, and no earlier run, which may have been killed, wrote one."""
        if share.first is None or share.last is None:
            return True
        leading = share.first if self._only_compacted() else 0
        return share.last + 1 - share.first == share.count and not leading and not share.selected.begin

    def _only_compacted(self) -> bool:
        """True if the topic's records cannot be deleted from its start, since its cleanup.policy is only compact."""
        return self.target.config.get("cleanup.policy") == "compact"

    def _limit_bytes(self) -> int:
        configured = self.target.config.get("max.message.bytes")
        limit = PRODUCED_BATCH_BYTES if configured is None else int(configured) - _HEADROOM_BYTES
        return max(1, min(PRODUCED_BATCH_BYTES, limit))

    @contextmanager
    def _watched(self, shares: Mapping[int, Share], bar: Meter) -> Generator[None]:
        """Advance the progress bar by the ends of the target's partitions."""
        ended = threading.Event()
        watch = _Watch(self.connection, self.target, shares, bar)
        thread = threading.Thread(target=watch.run, args=(ended,), name="odradek-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    # Verification

    def _report(self, shares: Mapping[int, Share], results: Mapping[int, Any]) -> Report:
        report = Report("restore", details={"way": self.way.value, "from_topic": self.source.topic})
        for partition, share in shares.items():
            result = results.get(partition)
            one = PartitionReport(
                self.target.topic, partition, share.selected.begin, share.selected.end, read=share.count
            )
            present = share.count - share.remaining
            if result is not None:
                one.written = result["records"]
                present += result["present"]
                if result["filled"]:
                    one.skipped["gap filled"] = result["filled"]
            if present:
                one.skipped["already there"] = present
            report.partitions.append(one)
            if result is not None and result["error"] is not None:
                report.incomplete(result["error"])
        return report

    def _check_ends(self, shares: Mapping[int, Share], results: Mapping[int, Any], report: Report) -> None:
        """Note each partition that does not end after its last restored record.

        Where an import found offsets already written, raise PipelineError unless that last record is the table's.
        """
        places = [self.target.place(partition) for partition, share in shares.items() if share.remaining]
        for place, end in self.client.list_offsets(places, LATEST).items():
            last = shares[place.partition].last
            if last is not None and end != last + 1:
                report.incomplete(f"{place.topic}-{place.partition} ends at {end} instead of {last + 1}")
        met = {(p, shares[p].last) for p, result in results.items() if result["met_others_at"]}
        check_records(self.client, self.target, {(p, last) for p, last in met if last is not None}, self.source.rows)


class _Watch:
    """Converts the ends of the target's partitions to a number of restored records."""

    def __init__(self, connection: Connection, target: Target, shares: Mapping[int, Share], bar: Meter) -> None:
        self._connection, self._target, self._bar, self._shown = connection, target, bar, 0
        self._shares = {partition: share for partition, share in shares.items() if share.remaining}

    def run(self, ended: threading.Event) -> None:
        """Poll the progress until the job ends. Errors are ignored, since the job itself reports them."""
        places = [self._target.place(partition) for partition in self._shares]
        with WireClient(self._connection) as client:
            while places and not ended.wait(_POLL_S):
                try:
                    offsets = client.list_offsets(places, LATEST)
                except PipelineError:
                    continue
                self._show(sum(self._done(place.partition, end) for place, end in offsets.items()))

    def _done(self, partition: int, end: int) -> int:
        share, begin = self._shares[partition], self._target.ends[partition]
        moved = min(end - begin, share.remaining + share.missing)
        return moved * share.remaining // (share.remaining + share.missing)

    def _show(self, done: int) -> None:
        if done > self._shown:
            self._bar.advance(done - self._shown, 0)
            self._shown = done
