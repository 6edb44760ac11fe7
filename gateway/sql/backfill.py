"""Adds rows for the records that a topic had before `odradek.sql.columns=true`."""

from contextlib import suppress

from odradek.gateway.beside.catalog import Catalog
from odradek.gateway.beside.committed import last_stable_offset
from odradek.gateway.sql.results import SqlError
from odradek.storage_backends.beside import Backfill, LogGoneError, LogsBeside

SETTING = "odradek.sql.columns"


def backfill(logs: LogsBeside, rows: Backfill, topic: str) -> int:
    """Add all missing rows of a topic; return the number of records. Raises SqlError, StoreError."""
    catalog = Catalog(logs)
    topics = catalog.topics()
    if topic not in topics:
        raise SqlError(f"there is no topic {topic}")
    if catalog.settings(topic).get(SETTING) != "true":
        raise SqlError(f"topic {topic} has no rows to fill in: set {SETTING}=true first, with `odradek configs alter`")
    rows.begin(topic)
    filled = 0
    for key in topics[topic].values():
        try:
            with logs.look(key) as view:
                stable_offset, aborted = last_stable_offset(view), view.aborted
        except LogGoneError:
            continue  # the partition was never used
        with suppress(LogGoneError):  # the topic was deleted meanwhile
            while (count := rows.fill(key, stable_offset, aborted)) is not None:
                filled += count
    return filled
