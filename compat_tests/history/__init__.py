"""Clients that make a history: producers and consumers, librdkafka's and Java's, that work whatever happens to brokers.

`recorder` writes down what they did and saw, `workers` are the clients' threads, `librdkafka_clients` and
`java_clients` what they work with. `odradek.gateway.testing.history` judges what was written down.
"""
