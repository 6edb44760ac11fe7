"""Avoids repeated work of Spark's Python workers.

A worker serves many tasks. Before each, Spark invalidates the caches of Python's import system, and Python before 3.12
then reads the directory of every zip file on its path anew: 60 ms for `pyspark.zip`, which does not change while Spark
runs. After each task it collects garbage, including all objects of loaded modules: 25 ms. Planning a query of
`format("odradek")` takes two such tasks, and reading it one for each range; a restore takes one for each partition.
"""

import gc
import sys
from functools import cache
from pathlib import Path
from zipimport import zipimporter


def spare_worker() -> None:
    """Avoid the work described above from the next task on. Does nothing in processes other than Spark's workers."""
    if not _is_worker():
        return
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and _is_of_spark(importer.archive):
            del sys.path_importer_cache[path]  # the next import creates it again, from the cached directory
    if not gc.get_freeze_count():
        gc.freeze()  # objects after the first task are mostly modules: the collector need not traverse them again


def _is_worker() -> bool:
    spec = sys.modules["__main__"].__spec__
    return spec is not None and spec.name == "pyspark.daemon"


@cache
def _is_of_spark(archive: str) -> bool:
    """True if it is one of Spark's own files; those of `--py-files` may change."""
    return Path(archive).parent.parts[-2:] == ("python", "lib")
