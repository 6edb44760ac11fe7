"""The cluster's metadata: an immutable image built by replay of metadata records, and the shard that changes it.

`image/` has the data that brokers read, and the replay of records (`replay.py`). `controller/` has the shard
(`shard.py`) and a module for each kind of decision (`create_topics.py`, `partition_change.py`, `alter_configs.py`,
`brokers.py`, …).
"""
