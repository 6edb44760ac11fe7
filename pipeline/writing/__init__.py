"""Records written to Kafka's partitions over wire messages, as jobs share it: batches, producers, transactions."""
