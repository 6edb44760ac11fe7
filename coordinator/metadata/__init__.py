"""The cluster's metadata: an immutable image built by replay of Kafka's metadata records, and the shard that decides.

`image/` has what brokers read, and how records become that (`replay.py`). `controller/` has the shard (`shard.py`) and
a module for each kind of decision (`create_topics.py`, `partition_change.py`, `alter_configs.py`, `brokers.py`, …).
"""
