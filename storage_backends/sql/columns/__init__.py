"""Records as rows of a table, of topics that have `odradek.sql.columns`.

Theory of operation
    Each commit's batches are decoded, and their records written to `odradek_records` in the transaction of the commit.
    `odradek_logs.columns_start` says from which offset on that is so: it is set by the first commit that finds the
    setting on, cleared by the first that finds it off, and lowered, chunk by chunk, by the call that fills in older
    records (`backfill`). Rows below it are of no use; they are deleted in the background.

    A record of a transaction has its producer's id, and the markers stand in `odradek_markers`: such a record counts if
    the producer's next marker in the log is a commit. So nothing has to be rewritten when a transaction ends, and a
    truncation that takes the marker away makes the transaction open again.

    The views (`views`) join all this, by topic. Retention, truncation, compaction and deletion do to rows and markers
    what they do to batches (`statements`).
"""
