"""The records that the coordinator writes to `__consumer_offsets`, in the bytes that Kafka 4.3 writes.

A key is its record type and a value its version, each as an int16, followed by the message. Kafka's own dump tools and
consumers of that topic read them.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.wire.errors import DecodeError
from odradek.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from odradek.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from odradek.wire.records.batch import NO_PRODUCER_ID
from odradek.wire.schema.codec import decode_exact, decoder, encode, encoder
from odradek.wire.schema.schema import Message
from odradek.wire.stored.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

GROUP_METADATA_VALUE_VERSION = 3
OFFSET_COMMIT_VALUE_VERSION = 4
EXPIRING_OFFSET_COMMIT_VALUE_VERSION = 1
"""The only version that carries an expire timestamp, for clients that bring their own retention."""

LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE, GROUP_METADATA_TYPE = 0, 1, 2
_KEY_VERSION = 0
_KEYS: dict[int, type[OffsetCommitKey | GroupMetadataKey]] = {
    LEGACY_OFFSET_COMMIT_TYPE: OffsetCommitKey,  # as type 1 but for its number
    OFFSET_COMMIT_TYPE: OffsetCommitKey,
    GROUP_METADATA_TYPE: GroupMetadataKey,
}

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OFFSET_TYPES = (_INT16.pack(LEGACY_OFFSET_COMMIT_TYPE), _INT16.pack(OFFSET_COMMIT_TYPE))


# Groups


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes], since_ms: int) -> ShardRecord:
    """The whole current generation, with what each member is assigned; `since_ms` is when it came to be."""
    members = tuple(_member(member, group.protocol, assignments) for member in group.members.values())
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=since_ms,
        members=members,
    )
    return _record(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VALUE_VERSION)


def new_group_record(group: ClassicGroup) -> ShardRecord:
    """That a group exists, before its first generation."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_since_ms)
    return _record(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VALUE_VERSION)


def group_tombstone(group_id: str) -> ShardRecord:
    """That a group exists no more."""
    return ShardRecord(_encode(GroupMetadataKey(group=group_id), GROUP_METADATA_TYPE, _KEY_VERSION), None)


def assignments_of(group: ClassicGroup) -> dict[str, bytes]:
    """What each member has been assigned."""
    return {member_id: member.assignment for member_id, member in group.members.items()}


def _member(member: Member, protocol: str | None, assignments: Mapping[str, bytes]) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignments[member.member_id],
    )


# Offsets


def offset_record(
    group_id: str,
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    now_ms: int,
    expire_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
) -> ShardRecord:
    """A commit made at `now_ms`; `expire_ms` only if the client brought its own retention.

    With a `producer_id` it is part of that producer's transaction.
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
    # The version with a retention has no place for the topic's id: what is read from it is not this value.
    return ShardRecord(key, bytes(written), producer_id, decoded=value if expire_ms is None else None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> ShardRecord:
    """That a partition has no committed offset any more."""
    return ShardRecord(_offset_key(group_id, topic, partition), None)


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return _offset_key_start(group_id, topic) + _INT32.pack(partition)


@lru_cache(maxsize=16)
def _offset_key_start(group_id: str, topic: str) -> bytes:
    """What the keys of a topic's partitions begin with; a commit may hold ten thousand of them."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=0)
    return _encode(key, OFFSET_COMMIT_TYPE, _KEY_VERSION)[: -_INT32.size]


# Bytes


def decode_key(data: bytes) -> OffsetCommitKey | GroupMetadataKey | None:
    """Read a record's key; None for a kind that classic groups do not use.

    Raises:
        odradek.wire.errors.DecodeError: the bytes are no such key.
    """
    record_type = _INT16.unpack_from(data)[0] if len(data) >= _INT16.size else None
    cls = None if record_type is None else _KEYS.get(record_type)
    return None if cls is None else decode_exact(cls, _KEY_VERSION, memoryview(data)[_INT16.size :])


def offset_place(key: bytes) -> tuple[str, str, int] | None:
    """The group, topic and partition of an offset's key; None for a key of another kind.

    Raises:
        odradek.wire.errors.DecodeError: the bytes are no such key.
    """
    if key[: _INT16.size] not in _OFFSET_TYPES:
        return None
    group_id, topic = _read_offset_key_start(key[: -_INT32.size])
    return group_id, topic, _INT32.unpack(key[-_INT32.size :])[0]


@lru_cache(maxsize=16)
def _read_offset_key_start(start: bytes) -> tuple[str, str]:
    key = decode_exact(OffsetCommitKey, _KEY_VERSION, memoryview(start + bytes(_INT32.size))[_INT16.size :])
    return key.group, key.topic


def decode_group(data: bytes) -> GroupMetadataValue:
    """Read a group's value, of any version. Raises odradek.wire.errors.ProtocolError for other bytes."""
    return decode_exact(GroupMetadataValue, _version_of(data), memoryview(data)[_INT16.size :])


def decode_offset(data: bytes) -> OffsetCommitValue:
    """Read a commit's value, of any version. Raises odradek.wire.errors.ProtocolError for other bytes."""
    value, end = decoder(OffsetCommitValue, _version_of(data))(memoryview(data), _INT16.size)
    if end != len(data):
        raise DecodeError(f"an offset's value has {len(data) - end} bytes too many")
    return value


def _version_of(data: bytes) -> int:
    return int.from_bytes(data[: _INT16.size], "big", signed=True)


def _record(key: OffsetCommitKey | GroupMetadataKey, value: Message, value_version: int) -> ShardRecord:
    record_type = OFFSET_COMMIT_TYPE if isinstance(key, OffsetCommitKey) else GROUP_METADATA_TYPE
    return ShardRecord(_encode(key, record_type, _KEY_VERSION), _encode(value, value_version, value_version))


def _encode(message: Message, prefix: int, version: int) -> bytes:
    return b"".join((_INT16.pack(prefix), encode(message, version)))
