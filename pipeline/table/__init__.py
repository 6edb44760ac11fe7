"""A table that jobs keep: Parquet files, and a log that alone says which of them count and what they hold.

`manifest` has the values, `log` the one atomic step, `files` and `hadoop_files` the file system, `reading` what other
jobs and users open tables with. docs/pipeline.md ("Exactly once") tells why it is made so.
"""

from odradek.pipeline.table.manifest import DataFile, OffsetRange, Progress, Span, Table
from odradek.pipeline.table.reading import open_table, read_dead_letters, read_table

__all__ = [
    "DataFile",
    "OffsetRange",
    "Progress",
    "Span",
    "Table",
    "open_table",
    "read_dead_letters",
    "read_table",
]
