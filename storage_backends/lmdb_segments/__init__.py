"""Logs in LMDB: a directory per partition, an environment per segment. Reached through `storage_backends.opener`."""
