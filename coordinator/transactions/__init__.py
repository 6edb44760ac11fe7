"""The transaction coordinator (KIP-98, KIP-360, KIP-447): one pure shard per partition of `__transaction_state`.

`shard.TransactionShard` has all operations; `coordinator.partitioner.partition_for` returns the shard that owns a
transactional id, as for groups.
"""
