"""Histories of producers and read_committed consumers, and whether they may have happened.

`operations` says what a history is, `recorder` writes one down, `order` finds each partition's order in it, `anomalies`
and `cycles` judge it; `workers` are the clients that make one. The classes of anomalies are those of Jepsen's Kafka
tests, and one more, torn-transaction.
"""
