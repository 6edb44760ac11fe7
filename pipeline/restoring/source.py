"""The source of a restore: a table of `odradek pipeline archive`, a folder of Parquet files, or a DataFrame with the
same columns.

Rows are read from files accessible on this machine. Spark first writes other sources to such files: a DataFrame, a
table on a file system that only Hadoop supports, files with columns in folder names, and unordered rows.
"""

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.restoring.files import COLUMNS, Pieces, most_at_once, names_of, places_of, scan
from odradek.pipeline.restoring.plan import Rows
from odradek.pipeline.table import Table, open_table, read_dead_letters, read_table
from odradek.pipeline.table.files import LocalFiles
from odradek.pipeline.table.log import Log, dead_letters_name
from odradek.pipeline.table.opening import open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCRATCH: Final = "spark.odradek.scratch"
"""The setting of the folder for the files that Spark writes first; on a cluster one that all workers share."""
MOST_AT_ONCE_BYTES: Final = 512 * 1024 * 1024
"""Files with more overlapping bytes are sorted by Spark."""
_FILE_OPTIONS: Final = {"compression": "zstd", "parquet.block.size": str(8 * 1024 * 1024)}


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of one topic by partition, and its number of partitions, which may include partitions without rows."""

    topic: str
    rows: Mapping[int, Rows]
    partitions: int


@contextmanager
def open_source(spark: "SparkSession", table: "str | Path | DataFrame", from_topic: str | None) -> Generator[Source]:
    """Return the rows of `from_topic`, or of the only topic of the table, including those that did not parse. Raises
    PipelineError if there is no table, a column is missing, or there are several topics or none.
    """
    partitions: dict[str, int] = {}
    if isinstance(table, str | Path):
        known = _known(spark, table)
        if known is not None:
            partitions = _partitions(known)
        paths = _paths(spark, table, known)
        if paths is not None:
            pieces = scan(paths)
            if max(map(most_at_once, pieces.values()), default=0) <= MOST_AT_ONCE_BYTES:
                yield _source(pieces, partitions or places_of(pieces), from_topic)
                return
        table = _parquet(spark, table) if known is None else _frame(spark, table, known)
    frame = _raw(table)
    topics = sorted(row["topic"] for row in frame.select("topic").distinct().collect())
    topic = _choose(topics, from_topic)
    with tempfile.TemporaryDirectory(prefix="odradek-restore-", dir=scratch_folder(spark)) as folder:
        pieces = scan(_written(spark, frame.where(frame["topic"] == topic), folder))
        yield _source(pieces, partitions or places_of(pieces), topic)


def _source(pieces: Pieces, partitions: Mapping[str, int], from_topic: str | None) -> Source:
    topic = _choose(sorted(partitions), from_topic)
    rows = {place.partition: Rows(place, found) for place, found in pieces.items() if place.topic == topic}
    return Source(topic, rows, partitions[topic])


def _known(spark: "SparkSession", path: str | Path) -> Table | None:
    """Return the facts in the table's log; None for a folder without one."""
    return open_table(path, spark) if Log(open_files(path, spark)).exists else None


def _partitions(known: Table) -> dict[str, int]:
    counts: dict[str, int] = {}
    for place in known.progress:
        counts[place.topic] = max(counts.get(place.topic, 0), place.partition + 1)
    return counts


def _frame(spark: "SparkSession", path: str | Path, known: Table) -> "DataFrame":
    rows = _raw(read_table(spark, path))
    return rows.unionByName(_raw(read_dead_letters(spark, path))) if known.dead_letters else rows


def _raw(frame: "DataFrame") -> "DataFrame":
    _require_columns(frame.columns)
    return frame.select(*COLUMNS)


def _require_columns(names: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise PipelineError(f"the table has no column {', '.join(missing)} (archived with --drop-raw?)")


def _paths(spark: "SparkSession", path: str | Path, known: Table | None) -> list[str] | None:
    """Return the files of a table if they can be read here; None if only Spark can read some."""
    files = open_files(path, spark)
    if not isinstance(files, LocalFiles):
        return None
    root = Path(files.root)
    if known is None:
        return _folder(root)
    dead = root.parent / dead_letters_name(files.root)
    paths = [*(root / name for name in known.files), *(dead / name for name in known.dead_letters)]
    for one in paths:
        _require_columns(names_of(str(one)) or [])
    return [str(one) for one in paths]


def _folder(root: Path) -> list[str] | None:
    """Return the files of a folder, or the one file, if all are Parquet with the columns; else None."""
    listed = sorted(root.iterdir()) if root.is_dir() else [root]
    paths = [one for one in listed if not one.name.startswith(("_", "."))]
    columns = [names_of(str(one)) if one.is_file() else None for one in paths]
    if not paths or any(names is None or not set(COLUMNS) <= set(names) for names in columns):
        return None
    return [str(one) for one in paths]


def _parquet(spark: "SparkSession", path: str | Path) -> "DataFrame":
    from pyspark.errors import AnalysisException

    try:
        return _raw(spark.read.parquet(str(path)))
    except AnalysisException as error:
        raise PipelineError(f"{path} is no table: {str(error).partition(';')[0].splitlines()[0]}") from error


def scratch_folder(spark: "SparkSession") -> str:
    """Return the folder in which Spark writes rows that are not in files yet. Raises PipelineError on a cluster without
    one.
    """
    named = spark.conf.get(SCRATCH, None)
    if named is None and not (spark.sparkContext.master or "").startswith("local"):
        raise PipelineError(
            "these rows are no Parquet files that all workers see; Spark can write them to some first: name a folder "
            f"that all workers see with --conf {SCRATCH}=FOLDER"
        )
    return named or spark.conf.get("spark.local.dir", None) or tempfile.gettempdir()


def _written(spark: "SparkSession", frame: "DataFrame", folder: str) -> list[str]:
    """Return the files of the rows, written in order."""
    ordered = frame.repartition("partition").sortWithinPartitions("partition", "offset")
    target = f"{folder}/rows"
    Path(folder).chmod(0o777)  # a worker may run as another user
    ordered.write.options(**_FILE_OPTIONS).parquet(f"file:{target}")
    return [str(path) for path in sorted(Path(target).glob("*.parquet"))]


def _choose(topics: list[str], wanted: str | None) -> str:
    if wanted is None and len(topics) == 1:
        return topics[0]
    known = ", ".join(topics) or "no topic at all"
    if wanted is None:
        raise PipelineError(f"the table has {known}: choose one with --from-topic" if topics else "the table is empty")
    if wanted not in topics:
        raise PipelineError(f"the table has no topic {wanted!r}, but {known}")
    return wanted
