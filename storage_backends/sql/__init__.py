"""Logs in a SQL database: SQLite or PostgreSQL, through SQLAlchemy (`pip install 'odradek[sql]'`).

Theory of operation
    A log is a row of `odradek_logs`; its batches, opaque bytes, are rows of `odradek_batches` by last offset. The other
    contents of a snapshot (epochs, producers, aborted transactions) and the segments, which are only ranges of offsets
    here, have tables of their own. `LogState` is a log's state in memory, without its batches, and a commit is a
    `Change` of it: it is first written in a transaction and then applied, so that readers only see committed data.

    Commits of several partitions that wait at the same time share one transaction (`CommitGroup`): a sync of the
    database takes the same time for one batch as for many. One broker owns a database: a lock excludes a second one,
    and an epoch that every transaction checks prevents a stalled owner from writing after another has taken over.
"""

from odradek.storage_backends.sql.store import SqlStore, open_sql_store

__all__ = ["SqlStore", "open_sql_store"]
