"""Judging what the clients of a cluster have seen: a history of operations, and the anomalies in it.

    sends and polls of all clients ─► versions.py: which record stands where in each partition
                                   ─► records.py: records that were lost, doubled, or seen though they were aborted
                                   ─► order.py: sends and polls that skipped or went back
                                   ─► cycles.py: transactions that cannot be put into one order
                                   ─► checker.py: all of it, and what Kafka's contract allows

The anomalies and their names are those of `jepsen.tests.kafka`. A history knows neither brokers nor time but for the
order in which operations began and ended, so that one checker judges simulations and real processes.
"""
