"""Messages to bytes and back, in every version.

The code for a message and version is generated at its first use and kept.  All functions raise
:class:`odradek.wire.errors.ProtocolError`: ``DecodeError`` for bytes that are not such a message,
``UnsupportedVersionError`` for a version that the message does not have, ``EncodeError`` for a value
that the version cannot carry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from odradek.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from odradek.wire.schema.schema import Message
from odradek.wire.schema.sources.decoder import decoder_source
from odradek.wire.schema.sources.encoder import encoder_source
from odradek.wire.schema.types import Buffer

M = TypeVar("M", bound=Message)
Decoder = Callable[[memoryview, int], tuple[M, int]]
Encoder = Callable[[M, bytearray, list[Buffer]], bytearray]

_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}
_encoders: dict[tuple[type[Message], int], Encoder[Any]] = {}

ENCODING_FAULTS = (struct.error, TypeError, AttributeError, ValueError, OverflowError)
"""The exceptions of an encoder for a value that the version cannot carry; :func:`encode_error` maps them."""


def decode(cls: type[M], version: int, buf: Buffer, offset: int = 0) -> tuple[M, int]:
    """Decode a ``cls`` that starts at ``offset``; returns it and the offset after it.

    Bytes and records fields are views of ``buf``: copy what has to outlive it.
    """
    view = as_view(buf)
    if not 0 <= offset <= len(view):
        raise DecodeError(f"{cls.__name__} cannot start at byte {offset} of {len(view)}")
    return decoder(cls, version)(view, offset)


def decode_exact(cls: type[M], version: int, buf: Buffer) -> M:
    """Decode a ``cls`` that fills ``buf``; bytes left over are a DecodeError."""
    view = as_view(buf)
    message, end = decoder(cls, version)(view, 0)
    if end != len(view):
        raise DecodeError(f"{cls.__name__} version {version} has {len(view) - end} bytes too many")
    return message


def encode(message: Message, version: int) -> bytearray | bytes:
    """Encode ``message``; records are copied into the result, see :func:`encode_parts`."""
    parts = encode_parts(message, version)
    return parts[0] if len(parts) == 1 and isinstance(parts[0], bytearray) else b"".join(parts)


def encode_parts(message: Message, version: int, out: bytearray | None = None) -> list[Buffer]:
    """Encode ``message`` into buffers to be sent one after the other.

    The buffers given in ``records`` fields are among them, not copied; keep their memory unchanged until they are sent.
    If ``out`` is given, such as a header, the message is appended to it.
    """
    parts: list[Buffer] = []
    try:
        last = encoder(type(message), version)(message, bytearray() if out is None else out, parts)
    except ENCODING_FAULTS as fault:
        raise encode_error(message, version, fault) from fault
    if last or not parts:
        parts.append(last)
    return parts


def encode_error(message: Message, version: int, fault: Exception) -> EncodeError:
    """Return the exception that :func:`encode_parts` raises for one of ``ENCODING_FAULTS``."""
    return EncodeError(f"{type(message).__name__} version {version} cannot be encoded: {fault}")


def as_view(buf: Buffer) -> memoryview:
    """Return ``buf`` as a view of unsigned bytes."""
    view = buf if isinstance(buf, memoryview) else memoryview(buf)
    return view if view.format == "B" else view.cast("B")


def decoder(cls: type[M], version: int) -> Decoder[M]:
    """Return the generated ``decode(view, offset)`` of ``cls`` in ``version``, for hot paths."""
    found = _decoders.get((cls, version))
    if found is None:
        _check_version(cls, version)
        found = _decoders[cls, version] = _compile(cls, version, "decode", *decoder_source(cls, version))
    return found


def encoder(cls: type[M], version: int) -> Encoder[M]:
    """Return the generated ``encode(message, out, parts)``; it does not map errors as :func:`encode` does."""
    found = _encoders.get((cls, version))
    if found is None:
        _check_version(cls, version)
        found = _encoders[cls, version] = _compile(cls, version, "encode", *encoder_source(cls, version))
    return found


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.__message__.versions:
        known = cls.__message__.versions
        raise UnsupportedVersionError(f"{cls.__name__} has versions {known.first} to {known.last}, not {version}")


def _compile(cls: type[Message], version: int, name: str, source: str, names: dict[str, Any]) -> Any:  # noqa: ANN401
    code = compile(source, f"<{name} {cls.__name__} version {version}>", "exec")
    exec(code, names)  # noqa: S102 - the source is made from our own schema
    return names[name]
