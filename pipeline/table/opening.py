"""Opens a table's files, on the local file system or on one of Hadoop's."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from odradek.gateway.data_urls import local_path
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.files import Files, LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_files(path: str | Path, spark: "SparkSession | None" = None) -> Files:
    """Return the files below `path`: a local path, `file:`, or with a session any URL that its Hadoop supports. With a
    session, a path without a scheme is on the session's default file system.
    """
    text = str(path)
    scheme = urlsplit(text).scheme if isinstance(path, str) else ""
    if scheme == "file":
        return LocalFiles(Path(local_path(unquote(urlsplit(text).path))))
    if not scheme and (spark is None or _default_file_system(spark).startswith("file:")):
        return LocalFiles(Path(text))
    if spark is None:
        raise PipelineError(f"{text} can only be opened with a Spark session")
    from odradek.pipeline.table.hadoop_files import HadoopFiles

    return HadoopFiles(spark, text)


def _default_file_system(spark: "SparkSession") -> str:
    context: Any = spark.sparkContext
    return str(context._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))  # noqa: SLF001 - PySpark has no other way
