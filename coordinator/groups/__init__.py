"""The group coordinator: groups of every protocol and committed offsets, as one pure shard for each partition.

`shard.GroupShard` has all operations and routes them. `classic/` and `consumer/` each know the groups of one protocol,
`offsets/` knows groups by the interface in `group` alone, and `migration/` converts groups between protocols. None of
the first three imports another; a further protocol gets a folder beside them.
"""
