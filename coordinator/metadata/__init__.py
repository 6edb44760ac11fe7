"""The cluster's metadata: an immutable image built by replay of Kafka's metadata records, and the shard that decides.

`image` is what brokers read, `replay` how records become one, `shard` the operations; each kind of decision has a
module of its own (`topics`, `partitions`, `alter_configs`, `brokers`, …).
"""
