"""The table format of the archive job: Parquet files, and a log that lists the table's files and their contents.

`manifest` has the values, `log` the atomic commit, `growth` the evolution of the schema, `files` and `hadoop_files` the
file systems, `opening` the choice of one, `reading` the functions with which other jobs and users open tables.
docs/pipeline.md ("Exactly once") has the reasons for the design.
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
