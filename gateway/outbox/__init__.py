"""Moves records from the outbox of the broker's store to its topics.

`relay.py` reads the records that transactions of the store's database have appended, in the order of their commits, and
appends them to the partitions' logs; each write removes its entries from the outbox in the same database transaction.
`topics.py` keeps the database's list of topics, which appending checks, consistent with the metadata. For a store
without an outbox, neither is used.
"""
