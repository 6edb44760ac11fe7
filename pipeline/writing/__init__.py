"""Writes records to Kafka's partitions over wire messages, for several jobs: batches, producers, transactions."""
