"""Clients that record a history: producers and consumers of librdkafka and Java that keep running through faults.

`recorder` records their operations and results, `workers` are the clients' threads, `librdkafka_clients` and
`java_clients` wrap the client libraries. `odradek.gateway.testing.history` checks the history.
"""
