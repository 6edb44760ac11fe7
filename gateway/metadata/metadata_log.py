"""The metadata log: its name, its leader's epoch and its settings."""

from typing import Final
from uuid import UUID

from odradek.gateway.config import BrokerConfig
from odradek.partitions.config import LogConfig
from odradek.partitions.model import PartitionKey

METADATA_KEY: Final = PartitionKey("__cluster_metadata", UUID(int=1), 0)
"""Kafka's name and id of the metadata log."""
METADATA_LEADER_EPOCH: Final = 1
METADATA_MAX_BATCH_BYTES: Final = 64 * 1024 * 1024


def metadata_log_config(config: BrokerConfig) -> LogConfig:
    """What the metadata log acts on: it is kept for ever, and rolls as `metadata.log.segment.…` says."""
    return LogConfig(
        max_message_bytes=METADATA_MAX_BATCH_BYTES,
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
    )
