"""Records as rows of a table, for topics with `odradek.sql.columns`.

Theory of operation
    Each commit's batches are decoded, and their records written to `odradek_records` in the transaction of the commit.
    `odradek_logs.columns_start` is the offset from which on records have rows: it is set by the first commit after the
    setting was turned on, cleared by the first after it was turned off, and lowered, chunk by chunk, by the call that
    adds the rows of older records (`backfill`). Rows below it are not used; they are deleted in the background.

    The row of a transactional record has its producer's id, and transaction markers are in `odradek_markers`: such a
    record is committed if the producer's next marker in the log is a commit. So no row has to be updated when a
    transaction ends, and a truncation that removes the marker makes the transaction open again.

    The views (`views`), one per topic, join these tables. Retention, truncation, compaction and deletion apply to rows
    and markers as to batches (`statements`).
"""
