"""The group coordinator: classic consumer groups and committed offsets, as one pure shard per partition.

`shard.GroupShard` is the whole surface; `partitioner.partition_for` says which shard owns a group.
"""
