"""A table's files on any file system that Spark's Hadoop supports: `hdfs:`, `s3a:`, `abfs:` and so on."""

# ruff: noqa: SLF001, FBT003 - PySpark has no other way to Hadoop
# pyright: reportPrivateUsage=false

import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.files import TEMPORARY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """A folder of a Hadoop file system; see Files. `create` is exclusive if the file system's rename without
    overwriting is atomic, as in HDFS. S3 does not have one: there the user has to ensure that only one archive job at a
    time writes to a table.
    """

    def __init__(self, spark: "SparkSession", root: str) -> None:
        self.root = root.rstrip("/")
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        conf = context._jsc.hadoopConfiguration()
        path = self._jvm.org.apache.hadoop.fs.Path(self.root)
        self._files = path.getFileSystem(conf)
        self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._files.getUri(), conf)
        renames = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        self._no_overwrite = context._gateway.new_array(renames, 1)
        self._no_overwrite[0] = renames.NONE

    def names(self, folder: str = "") -> list[str]:
        """See Files."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        listed = (status.getPath().getName() for status in self._files.listStatus(path))
        return sorted(name for name in listed if not name.startswith(TEMPORARY))

    def read(self, name: str) -> str:
        """See Files."""
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> bool:
        """See Files."""
        target = self._path(name)
        temporary = self._path(f"{name.rpartition('/')[0]}/{TEMPORARY}{uuid.uuid1().hex}")
        stream = self._files.create(temporary, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        return self._rename(temporary, target)

    def move(self, source: str, target: str) -> bool:
        """See Files."""
        if not self.exists(source):
            return False
        self._files.mkdirs(self._path(target).getParent())
        return self._rename(self._path(source), self._path(target))

    def exists(self, name: str) -> bool:
        """See Files."""
        return bool(self._files.exists(self._path(name)))

    def delete(self, name: str) -> None:
        """See Files."""
        self._files.delete(self._path(name), True)

    def sync(self, names: Collection[str]) -> None:
        """Do nothing: files of such a system are durable when they are closed."""

    def sync_names(self, names: Collection[str]) -> None:
        """Do nothing: names of such a system are durable at once."""

    def _rename(self, source: Any, target: Any) -> bool:  # noqa: ANN401 - Java objects
        from py4j.protocol import Py4JJavaError

        try:
            self._context.rename(source, target, self._no_overwrite)
        except Py4JJavaError as error:
            cause: Any = error.java_exception
            kind = str(cause.getClass().getSimpleName())
            if kind == "FileAlreadyExistsException":
                self._files.delete(source, False)
                return False
            if kind == "FileNotFoundException":
                return False
            raise PipelineError(f"{target}: {cause.getMessage()}") from error
        return True

    def _path(self, name: str) -> Any:  # noqa: ANN401 - a Java object
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)
