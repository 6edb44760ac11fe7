"""The type and version numbers that precede the keys and values of stored records.

- Coordinator records (``__consumer_offsets``, ``__transaction_state``): the key starts with the record type as an
  int16, the value with its version as an int16.
- Metadata records have no key; the value starts with frame version, type and version as varints.
- Control records: see :mod:`odradek.wire.records.reader` and :mod:`odradek.wire.records.builder`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TypeVar

from odradek.wire.errors import DecodeError, UnsupportedVersionError
from odradek.wire.schema.codec import as_view, decode_exact, encode, encode_parts
from odradek.wire.schema.runtime import append_uvarint, read_uvarint
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import Buffer
from odradek.wire.schema.versioned import decode_versioned, encode_versioned, peek_int16

METADATA_FRAME_VERSION = 1

_INT16 = struct.Struct(">h")

M = TypeVar("M", bound=Message)


def group_key_types() -> Mapping[int, type[Message]]:
    """Return the key classes of ``__consumer_offsets`` by record type."""
    return _classes("key", "group_records")


def group_value_types() -> Mapping[int, type[Message]]:
    """Return the value classes of ``__consumer_offsets`` by record type.

    Types 0 and 1 are both committed offsets; as in Kafka their values have one class.
    """
    found = dict(_classes("value", "group_records"))
    return found | {0: found[1]}


def transaction_key_types() -> Mapping[int, type[Message]]:
    """Return the key classes of ``__transaction_state`` by record type."""
    return _classes("key", "transaction_records")


def metadata_types() -> Mapping[int, type[Message]]:
    """Return the classes of ``__cluster_metadata`` by record type."""
    return _classes("metadata", "metadata_records")


def encode_key(key: Message) -> bytes:
    """Return the encoded key of a coordinator record."""
    return _INT16.pack(_record_type(type(key))) + encode(key, 0)


def decode_key(buf: Buffer, types: Mapping[int, type[Message]]) -> Message:
    """Decode the key of a coordinator record.

    Raises UnsupportedVersionError for a type that is not in ``types``: a newer Kafka wrote it, and replay skips it, as
    in Kafka.
    """
    view = as_view(buf)
    number = peek_int16(view, "a record key")
    if number not in types:
        raise UnsupportedVersionError(f"unknown record type {number}")
    return decode_exact(types[number], 0, view[2:])


def encode_value(value: Message, version: int) -> bytes:
    """Return the encoded value of a coordinator record in ``version``."""
    return encode_versioned(value, version)


def decode_value(cls: type[M], buf: Buffer) -> M:
    """Decode the value of a coordinator record, in the version that it was written in."""
    return decode_versioned(cls, buf)[0]


def encode_metadata_record(record: Message, version: int) -> bytes:
    """Return the encoded value of a metadata record in ``version``."""
    return b"".join(encode_parts(record, version, bytearray(_metadata_frame(type(record), version))))


@cache
def _metadata_frame(kind: type[Message], version: int) -> bytes:
    out = bytearray()
    append_uvarint(out, METADATA_FRAME_VERSION)
    append_uvarint(out, _record_type(kind))
    append_uvarint(out, version)
    return bytes(out)


def decode_metadata_record(buf: Buffer) -> tuple[Message, int]:
    """Decode the value of a metadata record; returns the record and its version.

    Raises UnsupportedVersionError for a frame version, type or version that is unknown.
    """
    view = as_view(buf)
    frame_version, number, version, pos = _read_metadata_frame(view)
    if frame_version != METADATA_FRAME_VERSION:
        raise UnsupportedVersionError(f"unknown metadata frame version {frame_version}")
    types = metadata_types()
    if number not in types:
        raise UnsupportedVersionError(f"unknown metadata record type {number}")
    return decode_exact(types[number], version, view[pos:]), version


def _read_metadata_frame(view: memoryview) -> tuple[int, int, int, int]:
    """Return the frame version, the record's type and version, and the position of the record."""
    if len(view) > 2 and view[0] < 0x80 and view[1] < 0x80 and view[2] < 0x80:  # the usual case
        return view[0], view[1], view[2], 3
    try:
        frame_version, pos = read_uvarint(view, 0)
        number, pos = read_uvarint(view, pos)
        version, pos = read_uvarint(view, pos)
    except IndexError:
        raise DecodeError(f"a metadata record of {len(view)} bytes is too short") from None
    return frame_version, number, version, pos


def _record_type(kind: type[Message]) -> int:
    number = kind.__message__.api_key
    assert number is not None, f"{kind.__name__} is no numbered record"
    return number


@cache
def _classes(kind: str, module: str) -> Mapping[int, type[Message]]:
    found: dict[int, type[Message]] = {}
    for value in vars(import_module(f"odradek.wire.stored.{module}")).values():
        info = getattr(value, "__message__", None)
        if info is not None and info.kind == kind and info.api_key is not None:
            found[info.api_key] = value
    return found
