"""The decisions of the cluster as pure shards: groups, metadata, and the settings that both rest on."""
