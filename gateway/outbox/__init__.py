"""The outbox of the broker's store becomes records of its topics.

`relay.py` takes what transactions of the store's database have appended, in the order of their commits, and appends it
to the partitions' logs; each write takes its entries out of the outbox in the same transaction of the database.
`topics.py` keeps the database's list of topics, which appending checks, in step with the metadata. A store without an
outbox has neither.
"""
