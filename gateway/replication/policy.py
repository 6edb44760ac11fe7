"""The part of a topic's settings that the store needs."""

from functools import lru_cache
from typing import Final

from odradek.partitions.config import NO_LIMIT, LogConfig
from odradek.storage_backends.interface import LogPolicy

MAX_POLICIES: Final = 1000
"""How many different policies are kept for logs to share."""


@lru_cache(MAX_POLICIES)
def policy_of(config: LogConfig) -> LogPolicy:
    """The part of a topic's settings that the store acts on; one value for all logs that share them."""
    durable = is_synced(config)
    return LogPolicy(config.segment_bytes, config.roll_ms, durable=durable, columns=config.sql_columns)


def is_synced(config: LogConfig) -> bool:
    """Whether every commit is synced: anything that bounds what a crash may lose asks for it, and gets more."""
    return config.flush_messages < NO_LIMIT or config.flush_ms < NO_LIMIT
