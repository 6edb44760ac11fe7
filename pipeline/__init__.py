"""Topics become tables and come back: jobs on PySpark, a copy between clusters, and a source that reads segments.

Each job is a function, documented and importable from here, and a command of `odradek pipeline`. They work with any
Kafka. Nothing is imported before it is used: Spark comes with `pip install 'odradek[spark]'`. docs/pipeline.md walks
through all of it.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.pipeline.connection import Connection
    from odradek.pipeline.mirroring import mirror
    from odradek.pipeline.report import Report
    from odradek.pipeline.restoring.bounds import Bound
    from odradek.pipeline.restoring.job import restore
    from odradek.pipeline.segments.source import SegmentSource
    from odradek.pipeline.session import spark_session

_HOMES = {
    "Bound": "odradek.pipeline.restoring.bounds",
    "Connection": "odradek.pipeline.connection",
    "Report": "odradek.pipeline.report",
    "SegmentSource": "odradek.pipeline.segments.source",
    "mirror": "odradek.pipeline.mirroring",
    "restore": "odradek.pipeline.restoring.job",
    "spark_session": "odradek.pipeline.session",
}
"""The public names and the modules that they stand in."""

__all__ = ["Bound", "Connection", "Report", "SegmentSource", "mirror", "restore", "spark_session"]


def __getattr__(name: str) -> object:
    """Import at first use, so that a name costs only what it needs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
