"""Applies records of committed offsets. Apart from this, only the end of a transaction changes the store."""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.offsets.records import decode_offset
from odradek.coordinator.groups.offsets.store import GroupTopicPartition, OffsetStore
from odradek.wire.records.batch import NO_PRODUCER_ID
from odradek.wire.stored.group_records import OffsetCommitValue


def replay_offset(store: OffsetStore, key: GroupTopicPartition, record: ShardRecord) -> None:
    """Apply a record of the offset of `key`: a commit, a commit in a transaction, or a tombstone.

    Raises:
        odradek.wire.errors.ProtocolError: the value is not a committed offset.
    """
    if record.value is None:
        store.remove(*key)
        return
    value = record.decoded if isinstance(record.decoded, OffsetCommitValue) else decode_offset(record.value)
    if record.producer_id == NO_PRODUCER_ID:
        store.put(*key, value)
    else:
        store.put_pending(record.producer_id, *key, value)
