"""The clients that move records for `produce` and `consume`: kafka-python, or confluent-kafka where installed."""
