"""How control records stand in a log.

The key is a version and a type as int16s.  An end-of-transaction marker's value starts with its version; those of the
Raft log start with a field of that meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

from wire.codec import as_view, decode_exact, encode
from wire.errors import DecodeError, UnsupportedVersionError
from wire.schema import Message
from wire.stored.control_records import (
    ControlRecordTypeSchema,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from wire.types import Buffer
from wire.versioned import encode_versioned, peek_int16

RaftControlRecord: TypeAlias = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
"""A control record of the Raft log; its first field names its version."""


class ControlRecordType(IntEnum):
    """What a control record says; names and numbers are Kafka's."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_VALUES: Mapping[ControlRecordType, type[Message]] = {
    ControlRecordType.ABORT: EndTxnMarker,
    ControlRecordType.COMMIT: EndTxnMarker,
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


def encode_control_key(kind: ControlRecordType) -> bytes:
    """The key of a control record."""
    return encode_versioned(ControlRecordTypeSchema(type=kind), 0)


def decode_control_key(buf: Buffer) -> ControlRecordType:
    """Read the key of a control record; its first version is the last one known."""
    view = as_view(buf)
    if peek_int16(view, "a control record's key") < 0 or len(view) < 4:
        raise DecodeError(f"a control record's key of {len(view)} bytes is not valid")
    number = peek_int16(view[2:], "a control record's type")
    try:
        return ControlRecordType(number)
    except ValueError:
        raise UnsupportedVersionError(f"unknown control record type {number}") from None


def encode_end_txn_marker(coordinator_epoch: int) -> bytes:
    """The value of a transaction's end marker."""
    return encode_versioned(EndTxnMarker(coordinator_epoch=coordinator_epoch), 0)


def encode_raft_control_value(message: RaftControlRecord) -> bytes:
    """The value of one of the Raft log's control records, in the version that it names itself."""
    return bytes(encode(message, message.version))


def decode_control_value(kind: ControlRecordType, buf: Buffer) -> Message:
    """Read the value of a control record whose key said ``kind``."""
    view = as_view(buf)
    cls = _CONTROL_VALUES[kind]
    version = min(peek_int16(view, cls.__name__), cls.__message__.versions.last)
    return decode_exact(cls, version, view[2:] if cls is EndTxnMarker else view)
