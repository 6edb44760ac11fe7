"""The outbox of a store in PostgreSQL: what `odradek.append` writes, read in the order of commits.

Theory of operation
    `append` (`functions.py`) checks a record against the topics that the broker has published, chooses its partition
    and inserts it into `odradek_outbox` in the user's transaction. What matters is when the records of a partition get
    their order. Neither ids nor transaction ids are enough: both are given before the commit, and commits come in
    another order. A reader that used them would pass records that are not visible yet, or would have to wait for the
    oldest transaction of the whole database (`pg_snapshot_xmin`), and would still not have the order of commits.

    So the order is given at the commit. A deferred constraint trigger takes an advisory lock for each partition that
    the transaction has appended to, sorted, so that two commits cannot wait for each other, and inserts one row a
    partition into `odradek_outbox_turns`, with a number of a sequence. PostgreSQL releases the locks of a transaction
    after its commit has become visible. So of two turns of a partition the one with the lower number was committed
    first, and a snapshot that shows the second shows the first: any snapshot has a prefix of the partition's turns.
    The lock is held from the end of the user's work to the end of the commit: transactions that append to the same
    partition wait for each other's commit record, and for nothing else.

    The broker's write deletes the entries that it takes, in the transaction that inserts their batch and that is fenced
    by the owner's epoch. A write that finds an entry gone fails as a whole (`statements.take`).
"""
