"""The compact job: merges small files of a table, also while an archive job is running."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyspark's types are incomplete

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.gateway.cli.output import Meter
from odradek.pipeline.archiving import failures
from odradek.pipeline.archiving.batch import ORDER
from odradek.pipeline.archiving.parquet import FILE_OPTIONS, read_spans
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.progress import advancing
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.table.log import STAGING, Log, Writer
from odradek.pipeline.table.manifest import DataFile, Entry, Table
from odradek.pipeline.table.opening import open_files
from odradek.pipeline.table.reading import read_files
from odradek.pipeline.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_SIZE_BYTES: Final = 128 * 1024 * 1024
SMALL: Final = 0.75
"""The share of the target size below which a file is merged with its neighbours."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one directory that are merged into one."""

    directory: str
    files: Sequence[DataFile]

    @property
    def records(self) -> int:
        """The number of records of all files."""
        return sum(file.records for file in self.files)


def compact(
    spark: "SparkSession", path: str | Path, *, target_size_bytes: int = TARGET_SIZE_BYTES, meter: Meter | None = None
) -> Report:
    """Merge the small files of a table into files of about `target_size_bytes`, each sorted by partition and offset.

    Each merged file replaces its parts in one atomic entry of the table's log, so a killed job leaves the table
    consistent. An archive job may run concurrently. Merged files have the table's newest schema; files of any size
    with an older one are rewritten. Raises PipelineError if there is no table, FencedError when another compact job has
    taken over.
    """
    log = Log(open_files(path, spark))
    before = log.load()
    if not before.files:
        return _report(before, [], 0)
    writer = log.claim("compact")
    count = len(log.table.files)
    merges = plan(log.table, target_size_bytes)
    for merge in merges:
        with advancing(spark, meter or _Silent(), merge.records):
            _merge(spark, str(path), log, writer, merge)
    return _report(log.table, merges, count)


class _Silent:
    def advance(self, records: int, size_bytes: int) -> None:
        pass


def plan(table: Table, target_bytes: int) -> list[Merge]:
    """Return the merges: runs of a directory's files that are small or have an older schema, in order of their offsets.

    A run of one file is only returned if its schema is older. No I/O.
    """
    by_directory: dict[str, list[DataFile]] = {}
    for file in table.files.values():
        if file.size_bytes < target_bytes * SMALL or file.schema != len(table.schemas) - 1:
            by_directory.setdefault(file.path.rpartition("/")[0], []).append(file)
    merges = [
        Merge(directory, run)
        for directory, files in sorted(by_directory.items())
        for run in _runs(sorted(files, key=_order), target_bytes)
    ]
    newest = len(table.schemas) - 1
    return [one for one in merges if len(one.files) > 1 or one.files[0].schema != newest]


def _order(file: DataFile) -> tuple[str, int, int]:
    first = file.spans[0]
    return first.topic, first.partition, first.first


def _runs(files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    runs: list[list[DataFile]] = [[]]
    for file in files:
        if runs[-1] and sum(one.size_bytes for one in runs[-1]) + file.size_bytes > target_bytes:
            runs.append([])
        runs[-1].append(file)
    return [run for run in runs if run]


def _merge(spark: "SparkSession", path: str, log: Log, writer: Writer, merge: Merge) -> None:
    staging = writer.new_staging()
    folder = f"{log.files.root}/{STAGING}/{staging}/data"
    depth = merge.directory.count("/") + 1 if merge.directory else 0
    schema = len(log.table.schemas) - 1
    try:
        frame = read_files(spark, path, log.table, merge.files).coalesce(1).sortWithinPartitions(*ORDER)
        names = [part.partition("=")[0] for part in merge.directory.split("/") if part]
        frame.drop(*names).write.options(**FILE_OPTIONS).parquet(f"{folder}/{merge.directory}".rstrip("/"))
        files = read_spans(spark, folder, depth, schema)
        _check(path, merge, files)
        removed = tuple(file.path for file in merge.files)
        writer.commit(Entry(0, "compact", "compact", "", 0, staging, files=tuple(files), removed=removed))
    except Exception as error:
        writer.discard(staging)
        if isinstance(error, PipelineError):
            raise
        raise failures.final(error, path) or PipelineError(f"{path}: {failures.reason(error)}") from error


def _check(path: str, merge: Merge, files: Sequence[DataFile]) -> None:
    """Raise PipelineError unless each partition has as many records as before, and the same first and last offset."""
    if _records(merge.files) != _records(files):
        raise PipelineError(f"{path}: merged files have other records than their parts; nothing was replaced")


def _records(files: Sequence[DataFile]) -> dict[TopicPartition, tuple[int, int, int]]:
    found: dict[TopicPartition, tuple[int, int, int]] = {}
    for span in (span for file in files for span in file.spans):
        place = TopicPartition(span.topic, span.partition)
        first, last, count = found.get(place, (span.first, span.last, 0))
        found[place] = min(first, span.first), max(last, span.last), count + span.records
    return found


def _report(table: Table, merges: Sequence[Merge], before: int) -> Report:
    report = Report("compact")
    replaced = _records([file for merge in merges for file in merge.files])
    for place, (first, last, count) in sorted(replaced.items()):
        report.partitions.append(PartitionReport(*place, first, last + 1, count, count))
    merged = sum(len(merge.files) for merge in merges)
    report.details = {"files_before": before, "files_merged": merged, "files_after": len(table.files)}
    return report
