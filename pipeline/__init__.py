"""Jobs that move data between topics, tables, databases and clusters, and a Spark source that reads segments.

Each job is a function, documented and importable from here, and a command of `odradek pipeline`; the command of
`mirror` is `odradek mirror`. They work with any Kafka. All jobs but `audit` and `mirror` run on PySpark, which is
installed with `pip install 'odradek[spark]'`; modules are imported at first use. docs/pipeline.md describes all jobs.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.pipeline.archiving.job import archive
    from odradek.pipeline.auditing.job import audit
    from odradek.pipeline.compacting import compact
    from odradek.pipeline.connection import Connection
    from odradek.pipeline.exporting import Export, export
    from odradek.pipeline.loading import Load, load
    from odradek.pipeline.mirroring import mirror
    from odradek.pipeline.report import Report
    from odradek.pipeline.restoring.bounds import Bound
    from odradek.pipeline.restoring.job import restore
    from odradek.pipeline.segments.source import SegmentSource
    from odradek.pipeline.session import spark_session
    from odradek.pipeline.table import open_table, read_dead_letters, read_table
    from odradek.pipeline.transforming.job import transform
    from odradek.pipeline.values.parsing import Parsing

_MODULES = {
    "Bound": "odradek.pipeline.restoring.bounds",
    "Connection": "odradek.pipeline.connection",
    "Export": "odradek.pipeline.exporting",
    "Load": "odradek.pipeline.loading",
    "Parsing": "odradek.pipeline.values.parsing",
    "Report": "odradek.pipeline.report",
    "SegmentSource": "odradek.pipeline.segments.source",
    "archive": "odradek.pipeline.archiving.job",
    "audit": "odradek.pipeline.auditing.job",
    "compact": "odradek.pipeline.compacting",
    "export": "odradek.pipeline.exporting",
    "load": "odradek.pipeline.loading",
    "mirror": "odradek.pipeline.mirroring",
    "open_table": "odradek.pipeline.table",
    "read_dead_letters": "odradek.pipeline.table",
    "read_table": "odradek.pipeline.table",
    "restore": "odradek.pipeline.restoring.job",
    "spark_session": "odradek.pipeline.session",
    "transform": "odradek.pipeline.transforming.job",
}
"""The public names and their modules."""

__all__ = [
    "Bound",
    "Connection",
    "Export",
    "Load",
    "Parsing",
    "Report",
    "SegmentSource",
    "archive",
    "audit",
    "compact",
    "export",
    "load",
    "mirror",
    "open_table",
    "read_dead_letters",
    "read_table",
    "restore",
    "spark_session",
    "transform",
]


def __getattr__(name: str) -> object:
    """Import at first use, so that a name imports only what it needs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
