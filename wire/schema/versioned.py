"""Values preceded by their version as an int16, as in stored records."""

from __future__ import annotations

import struct
from typing import TypeVar

from odradek.wire.errors import DecodeError
from odradek.wire.schema.codec import as_view, decode_exact, encode
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import Buffer

M = TypeVar("M", bound=Message)

_INT16 = struct.Struct(">h")


def encode_versioned(message: Message, version: int) -> bytes:
    """Return ``version`` as an int16, then the message in that version."""
    return _INT16.pack(version) + encode(message, version)


def decode_versioned(cls: type[M], buf: Buffer) -> tuple[M, int]:
    """Decode the result of :func:`encode_versioned`; returns the message and its version."""
    view = as_view(buf)
    version = peek_int16(view, cls.__name__)
    return decode_exact(cls, version, view[2:]), version


def peek_int16(view: memoryview, name: str) -> int:
    """Return the int16 at the start of ``view``; raises DecodeError, which names ``name``, if it is too short."""
    if len(view) < 2:
        raise DecodeError(f"{name} of {len(view)} bytes has no version")
    return _INT16.unpack_from(view, 0)[0]
