"""Requests and responses with their headers, as they travel inside a frame.

A request header is version 2 when the API version is flexible, else 1; a response header 1 or 0.  Two exceptions make
ApiVersions work between a client and an older broker: the client id keeps its int16 length in header 2, and ApiVersions
responses always have header 0 (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Any

from odradek.wire.api_keys import API_KEY_BY_NUMBER, FLEXIBLE_FROM, ApiKey, api_key_of, is_flexible
from odradek.wire.errors import DecodeError, UnsupportedVersionError
from odradek.wire.messages import response_class
from odradek.wire.schema.codec import (
    ENCODING_FAULTS,
    Encoder,
    as_view,
    decoder,
    encode_error,
    encode_parts,
    encoder,
)
from odradek.wire.schema.runtime import SURELY_SHORT_BYTES, append_tagged_fields, read_long_text, read_tagged_fields
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import Buffer, TaggedFields

_REQUEST_START = struct.Struct(">hhih")
_CLIENT_ID_AT = _REQUEST_START.size
_INT32 = struct.Struct(">i")
# The length, filled in later, the correlation id and, in flexible versions, the count of tagged fields, 0.
_RESPONSE_START = struct.Struct(">4xi")
_TAGGED_RESPONSE_START = struct.Struct(">4xix")

_response_encoders: dict[tuple[type[Message], int], tuple[struct.Struct, Encoder[Any]]] = {}
"""The header struct (one of the two above) and the body's encoder of each message and version, added at first use."""


def read_request_header(view: memoryview) -> tuple[ApiKey, int, int, str | None, TaggedFields, int]:
    """Read a request's header: its API, version, correlation id, client id, tagged fields, and the offset of the body.

    The version may be unknown: the dispatcher compares it with the table. Raises UnsupportedVersionError for an unknown
    API key and DecodeError for an invalid header; Kafka closes the connection for either.
    """
    try:
        number, version, correlation_id, size = _REQUEST_START.unpack_from(view, 0)
    except struct.error:
        raise DecodeError(f"a request of {len(view)} bytes is too short for its header") from None
    key = API_KEY_BY_NUMBER.get(number)  # inlined `api_key_of`: this runs for every request
    if key is None:
        raise UnsupportedVersionError(f"unknown API key {number}")
    pos = _CLIENT_ID_AT + size
    if 0 <= size <= SURELY_SHORT_BYTES and pos <= len(view):
        client_id: str | None = str(view[_CLIENT_ID_AT:pos], "utf-8", "replace")
    else:
        client_id, pos = _read_client_id(view, size)
    if version < FLEXIBLE_FROM[key]:
        return key, version, correlation_id, client_id, (), pos
    if pos < len(view) and not view[pos]:  # no tagged fields: nearly always
        return key, version, correlation_id, client_id, (), pos + 1
    tags, pos = _read_tags(view, pos)
    return key, version, correlation_id, client_id, tags, pos


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None, tags: TaggedFields = ()
) -> bytes:
    """Return a request as a frame with its length prefix."""
    return b"".join(encode_request_parts(message, version, correlation_id, client_id, tags))


def encode_request_parts(
    message: Message, version: int, correlation_id: int, client_id: str | None, tags: TaggedFields = ()
) -> list[Buffer]:
    """As `encode_request`, but in parts to be sent one after the other; records are not copied."""
    key = _api_key(message)
    name = None if client_id is None else client_id.encode()
    out = bytearray(4)
    out += _REQUEST_START.pack(key, version, correlation_id, -1 if name is None else len(name))
    out += name or b""
    if is_flexible(key, version):
        append_tagged_fields(out, (), tags)
    return _framed(encode_parts(message, version, out))


def encode_response_parts(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Return a response as a frame with its length prefix, in parts to be sent one after the other.

    Records are not copied, see :func:`odradek.wire.schema.codec.encode_parts`.
    """
    found = _response_encoders.get((type(message), version))
    start, encode = found or _response_encoder(message, version)
    out = bytearray(start.pack(correlation_id))
    parts: list[Buffer] = []
    try:
        last = encode(message, out, parts)
    except ENCODING_FAULTS as fault:
        raise encode_error(message, version, fault) from fault
    if not parts:  # everything is in `out`
        _INT32.pack_into(out, 0, len(out) - 4)
        return [out]
    if last:
        parts.append(last)
    return _framed(parts)


def _response_encoder(message: Message, version: int) -> tuple[struct.Struct, Encoder[Any]]:
    kind = type(message)
    start = _TAGGED_RESPONSE_START if _has_tags(_api_key(message), version) else _RESPONSE_START
    found = _response_encoders[kind, version] = start, encoder(kind, version)
    return found


def decode_response(key: ApiKey, version: int, frame: Buffer) -> tuple[int, Message]:
    """Decode a whole response to a request of ``key`` and ``version``; returns its correlation id and message."""
    view = as_view(frame)
    if len(view) < 4:
        raise DecodeError(f"a response of {len(view)} bytes is too short for its header")
    correlation_id: int = _INT32.unpack_from(view, 0)[0]
    pos = 4
    if _has_tags(key, version):
        _, pos = _read_tags(view, pos)
    message, end = decoder(response_class(key), version)(view, pos)
    _refuse_rest(view, end)
    return correlation_id, message


def _read_client_id(view: memoryview, size: int) -> tuple[str | None, int]:
    """Read a client id that is null, long, or longer than the request; returns it and the position after it."""
    start = _CLIENT_ID_AT
    if size < 0:
        return None, start
    end = start + size
    if end > len(view):
        raise DecodeError(f"client id claims {size} bytes at byte {start} of {len(view)}")
    return read_long_text(view, start, size, "client id"), end


def _read_tags(view: memoryview, pos: int) -> tuple[TaggedFields, int]:
    try:
        count = view[pos]
        return read_tagged_fields(view, pos + 1, count) if count else ((), pos + 1)
    except IndexError:
        raise DecodeError("the header's tagged fields end too early") from None


def _has_tags(key: ApiKey, version: int) -> bool:
    return key is not ApiKey.API_VERSIONS and is_flexible(key, version)


def _api_key(message: Message) -> ApiKey:
    key = api_key_of(message.__message__.api_key or 0)
    assert key is not None
    return key


def _framed(parts: list[Buffer]) -> list[Buffer]:
    first = parts[0]
    assert isinstance(first, bytearray), "encode_parts starts with the buffer that it was given"
    _INT32.pack_into(first, 0, (len(first) if len(parts) == 1 else sum(map(len, parts))) - 4)
    return parts


def _refuse_rest(view: memoryview, end: int) -> None:
    if end != len(view):
        raise DecodeError(f"{len(view) - end} bytes follow the message")
