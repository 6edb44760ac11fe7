"""The data that consumers of classic groups exchange through the broker: subscriptions and assignments."""

from __future__ import annotations

from typing import TypeVar

from odradek.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.wire.schema.codec import as_view, decode
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import Buffer
from odradek.wire.schema.versioned import encode_versioned, peek_int16

PROTOCOL_TYPE = "consumer"
"""The protocol type that consumers name in JoinGroup."""

M = TypeVar("M", bound=Message)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    """Return a consumer's subscription as JoinGroup carries it."""
    return encode_versioned(subscription, version)


def decode_subscription(buf: Buffer) -> ConsumerProtocolSubscription:
    """Read a consumer's subscription of any version; see :func:`_decode_lenient`."""
    return _decode_lenient(ConsumerProtocolSubscription, buf)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """Return a consumer's assignment as SyncGroup carries it."""
    return encode_versioned(assignment, version)


def decode_assignment(buf: Buffer) -> ConsumerProtocolAssignment:
    """Read a consumer's assignment of any version; see :func:`_decode_lenient`."""
    return _decode_lenient(ConsumerProtocolAssignment, buf)


def _decode_lenient(cls: type[M], buf: Buffer) -> M:
    """Decode a version above the last known one as the last known one: newer versions only add fields at the end."""
    view = as_view(buf)
    version = min(peek_int16(view, cls.__name__), cls.__message__.versions.last)
    message, _ = decode(cls, version, view, 2)
    return message
