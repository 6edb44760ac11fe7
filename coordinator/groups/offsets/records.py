"""The records of committed offsets in `__consumer_offsets`, in the bytes that Kafka 4.3 writes.

A key begins with its record type and a value with its version, each as an int16. Kafka's dump tools, and consumers of
that topic, read them.
"""

import struct
from functools import lru_cache

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.offsets.store import GroupTopicPartition
from odradek.wire.errors import DecodeError
from odradek.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from odradek.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from odradek.wire.records.batch import NO_PRODUCER_ID
from odradek.wire.schema.codec import decode_exact, decoder, encoder
from odradek.wire.stored.framing import encode_key
from odradek.wire.stored.group_records import OffsetCommitKey, OffsetCommitValue

OFFSET_COMMIT_VALUE_VERSION = 4
EXPIRING_OFFSET_COMMIT_VALUE_VERSION = 1
"""The only version with an expire timestamp; OffsetCommit 2 to 4 carry a retention of their own."""

LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE = 0, 1
"""Kafka reads both record types and writes the second."""

_KEY_VERSION = 0
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OFFSET_TYPES = (_INT16.pack(LEGACY_OFFSET_COMMIT_TYPE), _INT16.pack(OFFSET_COMMIT_TYPE))


def offset_record(
    group_id: str,
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    now_ms: int,
    expire_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
) -> ShardRecord:
    """Returns the record of a commit at `now_ms`; with a `producer_id`, of one in that producer's transaction.

    `expire_ms` is the time of its expiry, None if the broker's retention applies.

    Raises:
        odradek.wire.errors.EncodeError: the metadata is too long for a record.
    """
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=-1 if expire_ms is None else expire_ms,
        topic_id=topic.topic_id,
    )
    version = OFFSET_COMMIT_VALUE_VERSION if expire_ms is None else EXPIRING_OFFSET_COMMIT_VALUE_VERSION
    key = _offset_key(group_id, topic.name, partition.partition_index)
    written = encoder(OffsetCommitValue, version)(value, bytearray(_INT16.pack(version)), [])
    # The version with a retention has no field for the topic's id: decoding it does not give this value.
    return ShardRecord(key, bytes(written), producer_id, decoded=value if expire_ms is None else None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> ShardRecord:
    """Returns the record that removes a partition's committed offset."""
    return ShardRecord(_offset_key(group_id, topic, partition), None)


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return _offset_key_start(group_id, topic) + _INT32.pack(partition)


@lru_cache(maxsize=16)
def _offset_key_start(group_id: str, topic: str) -> bytes:
    """Returns the key prefix of a topic's partitions; cached, as a commit may have ten thousand of them."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=0)
    return encode_key(key)[: -_INT32.size]


def decode_offset_key(key: bytes) -> GroupTopicPartition | None:
    """Returns the group, topic and partition of an offset's key; None for a key of another kind.

    Raises:
        odradek.wire.errors.DecodeError: the record type is that of an offset, but the rest is invalid.
    """
    if key[: _INT16.size] not in _OFFSET_TYPES:
        return None
    group_id, topic = _read_offset_key_start(key[: -_INT32.size])
    return group_id, topic, _INT32.unpack(key[-_INT32.size :])[0]


@lru_cache(maxsize=16)
def _read_offset_key_start(start: bytes) -> tuple[str, str]:
    key = decode_exact(OffsetCommitKey, _KEY_VERSION, memoryview(start + bytes(_INT32.size))[_INT16.size :])
    return key.group, key.topic


def decode_offset(data: bytes) -> OffsetCommitValue:
    """Decode a commit's value, of any version. Raises odradek.wire.errors.ProtocolError for other bytes."""
    version = int.from_bytes(data[: _INT16.size], "big", signed=True)
    value, end = decoder(OffsetCommitValue, version)(memoryview(data), _INT16.size)
    if end != len(data):
        raise DecodeError(f"an offset's value has {len(data) - end} bytes too many")
    return value
