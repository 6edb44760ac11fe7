"""Values that carry their own version as an int16 in front: stored records and consumer metadata."""

from __future__ import annotations

import struct
from typing import TypeVar

from wire.codec import as_view, decode, decode_exact, encode
from wire.errors import DecodeError
from wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from wire.schema import Message
from wire.types import Buffer

M = TypeVar("M", bound=Message)

_INT16 = struct.Struct(">h")


def encode_versioned(message: Message, version: int) -> bytes:
    """``version`` as an int16, then the message in that version."""
    return _INT16.pack(version) + encode(message, version)


def decode_versioned(cls: type[M], buf: Buffer) -> tuple[M, int]:
    """Read what :func:`encode_versioned` wrote; returns the message and its version."""
    view = as_view(buf)
    version = peek_int16(view, cls.__name__)
    return decode_exact(cls, version, view[2:]), version


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    """A consumer's subscription as JoinGroup carries it."""
    return encode_versioned(subscription, version)


def decode_subscription(buf: Buffer) -> ConsumerProtocolSubscription:
    """Read a consumer's subscription of any version; see :func:`_decode_lenient`."""
    return _decode_lenient(ConsumerProtocolSubscription, buf)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """A consumer's assignment as SyncGroup carries it."""
    return encode_versioned(assignment, version)


def decode_assignment(buf: Buffer) -> ConsumerProtocolAssignment:
    """Read a consumer's assignment of any version; see :func:`_decode_lenient`."""
    return _decode_lenient(ConsumerProtocolAssignment, buf)


def _decode_lenient(cls: type[M], buf: Buffer) -> M:
    """Read a version above the last one known as that one: newer versions only add fields at the end."""
    view = as_view(buf)
    version = min(peek_int16(view, cls.__name__), cls.__message__.versions.last)
    message, _ = decode(cls, version, view, 2)
    return message


def peek_int16(view: memoryview, name: str) -> int:
    """The int16 that ``view`` starts with; DecodeError naming ``name`` if there is none."""
    if len(view) < 2:
        raise DecodeError(f"{name} of {len(view)} bytes has no version")
    return _INT16.unpack_from(view, 0)[0]
