"""The coordination logic of the cluster as pure shards: groups, transactions, metadata, the quorum, and configs."""
