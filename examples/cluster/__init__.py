"""Three brokers under load, of which the leader of a partition is killed: `python -m examples.cluster`."""
