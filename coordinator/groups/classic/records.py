"""Keys and values of the records of classic groups in `__consumer_offsets`, in the bytes that Kafka 4.3 writes.

A key begins with its record type and a value with its version, each as an int16. Kafka's dump tools, and consumers of
that topic, read them. `generation` creates the values.
"""

from odradek.coordinator.contract import ShardRecord
from odradek.wire.stored.framing import decode_key, decode_value, encode_key, encode_value
from odradek.wire.stored.group_records import GroupMetadataKey, GroupMetadataValue

GROUP_METADATA_VALUE_VERSION = 3
_KEYS = {2: GroupMetadataKey}


def group_value_record(group_id: str, value: GroupMetadataValue) -> ShardRecord:
    """Returns the record of a group's last generation."""
    return ShardRecord(encode_key(GroupMetadataKey(group=group_id)), encode_value(value, GROUP_METADATA_VALUE_VERSION))


def group_tombstone(group_id: str) -> ShardRecord:
    """Returns the record that removes a group."""
    return ShardRecord(encode_key(GroupMetadataKey(group=group_id)), None)


def decode_classic_key(data: bytes) -> str | None:
    """Returns the group id of a classic group's record; None for a record of another kind.

    Raises:
        odradek.wire.errors.DecodeError: the record type is that of a classic group, but the rest is invalid.
    """
    if int.from_bytes(data[:2], "big") not in _KEYS or len(data) < 2:
        return None
    key = decode_key(data, _KEYS)
    assert isinstance(key, GroupMetadataKey)
    return key.group


def decode_group(data: bytes) -> GroupMetadataValue:
    """Decode a group's value, of any version. Raises odradek.wire.errors.ProtocolError for other bytes."""
    return decode_value(GroupMetadataValue, data)
