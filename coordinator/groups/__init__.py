"""The group coordinator: groups of every protocol and committed offsets, as one pure shard for each partition.

`shard.GroupShard` has all operations and routes them. `classic/` and `consumer/` implement the groups of one protocol
each, `offsets/` depends only on the interface in `group`, and `migration/` converts groups between protocols. None of
the first three imports another; a further protocol gets a folder beside them.
"""
