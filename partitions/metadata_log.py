"""The keys of the metadata log and its snapshots in a store.

A snapshot is a log of its own: batches from offset 0 on, between a header and a footer (KIP-630). Its key has the topic
of the metadata log, and the snapshot's id in the place of the topic's id.
"""

from typing import Final
from uuid import UUID

from odradek.partitions.model import PartitionKey

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_KEY: Final = PartitionKey(METADATA_TOPIC, UUID(int=1), 0)
"""Kafka's name and id of the metadata log."""

_END_OFFSET_BITS: Final = 64
_SNAPSHOT: Final = 2
"""The low half of a snapshot's UUID is its epoch and this number; that of the metadata log's UUID is 1."""


def snapshot_key(end_offset: int, epoch: int) -> PartitionKey:
    """Returns the key of a snapshot's log."""
    return PartitionKey(METADATA_TOPIC, UUID(int=end_offset << _END_OFFSET_BITS | epoch << 8 | _SNAPSHOT), 0)


def snapshot_of(key: PartitionKey) -> tuple[int, int] | None:
    """Returns the end offset and epoch of the snapshot stored under a key; None for any other log."""
    number = key.topic_id.int
    if key.topic != METADATA_TOPIC or number & 0xFF != _SNAPSHOT:
        return None
    return number >> _END_OFFSET_BITS, (number & (1 << _END_OFFSET_BITS) - 1) >> 8
