"""Logs in a SQL database: SQLite or PostgreSQL, through SQLAlchemy (`pip install 'odradek[sql]'`).

Theory of operation
    A log is a row of `odradek_logs`; its batches, opaque bytes, are rows of `odradek_batches` by last offset. What a
    snapshot shows (epochs, producers, aborted transactions) and the segments, which are mere ranges of offsets here,
    have tables of their own. `LogState` keeps all of a log but its batches in memory, and a commit is a `Change` of it:
    first it is written in a transaction, then it is applied, so that readers never see what is not committed.

    Commits of several partitions that wait at the same time share one transaction (`CommitGroup`): a sync of the
    database costs the same for one batch as for many. One broker owns a database: an advisory lock keeps a second one
    away, and an epoch that every transaction checks keeps a stalled owner from writing after another took over.
"""

from odradek.storage_backends.sql.store import SqlStore, open_sql_store

__all__ = ["SqlStore", "open_sql_store"]
