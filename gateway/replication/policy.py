"""Derives the store's policy from a topic's settings."""

from functools import lru_cache
from typing import Final

from odradek.partitions.config import NO_LIMIT, LogConfig
from odradek.storage_backends.interface import LogPolicy

MAX_POLICIES: Final = 1000
"""The maximum number of different policies that are cached for logs to share."""


@lru_cache(MAX_POLICIES)
def policy_of(config: LogConfig) -> LogPolicy:
    """The store's policy from a topic's settings; one value for all logs that share them."""
    durable = is_synced(config)
    return LogPolicy(config.segment_bytes, config.roll_ms, durable=durable, columns=config.sql_columns)


def is_synced(config: LogConfig) -> bool:
    """True if every commit is synced: if `flush.messages` or `flush.ms` has any limit, even one that requires less."""
    return config.flush_messages < NO_LIMIT or config.flush_ms < NO_LIMIT
