"""Logs in LMDB: a directory a partition, an environment a segment. Reached through `storage_backends.opener`."""
