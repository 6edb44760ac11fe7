"""Checks the operations of a cluster's clients: a history of sends and polls, and the anomalies in it.

    sends and polls of all clients ─► versions.py: the order of the records of each partition
                                   ─► records.py: records that were lost, or read although they were aborted
                                   ─► order.py: sends and polls that skip records or go back
                                   ─► cycles.py: transactions that cannot be put into one order
                                   ─► checker.py: all anomalies, and those that Kafka's contract allows

The anomalies and their names are those of `jepsen.tests.kafka`. A history contains neither brokers nor times, only the
order in which operations began and ended, so the same checker works for simulations and for real processes.
"""
