"""The outbox of a store in PostgreSQL: records written by `odradek.append`, read in the order of commits.

Theory of operation
    `append` (`functions.py`) checks a record against the topics that the broker has published, chooses its partition
    and inserts it into `odradek_outbox` in the user's transaction. The records of a partition have to be ordered by
    commit. Neither row ids nor transaction ids provide that: both are assigned before the commit, and transactions may
    commit in another order. A reader that used them would skip records that are not visible yet, or would have to wait
    for the oldest transaction of the whole database (`pg_snapshot_xmin`), and would still not have the order of
    commits.

    So the order is assigned at the commit. A deferred constraint trigger takes an advisory lock for each partition that
    the transaction has appended to, in sorted order to avoid deadlocks, and inserts one row per partition, a turn, into
    `odradek_outbox_turns`, with a number of a sequence. PostgreSQL releases the locks of a transaction after its commit
    has become visible. So of two turns of a partition the one with the lower number was committed first, and a snapshot
    that contains the second contains the first: any snapshot has a prefix of the partition's turns. The lock is held
    only from the start of the commit to its end: transactions that append to the same partition wait only for each
    other's commit.

    The broker's write deletes the entries that it contains, in the transaction that inserts their batch and that is
    fenced by the owner's epoch. A write fails as a whole if an entry does not exist any more (`queries.take`).
"""
