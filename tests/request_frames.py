"""Requests decoded as a server decodes them: the header and the message in a frame."""

from typing import NamedTuple

from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import DecodeError
from odradek.wire.headers import read_request_header
from odradek.wire.messages import request_class
from odradek.wire.schema.codec import as_view, decoder
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import Buffer, TaggedFields


class RequestHeader(NamedTuple):
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    unknown_tagged_fields: TaggedFields


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, and the offset of the body in `frame`."""
    *header, pos = read_request_header(as_view(frame))
    return RequestHeader(*header), pos


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """A whole request, which must fill `frame`."""
    view = as_view(frame)
    header, pos = decode_request_header(view)
    message, end = decoder(request_class(header.api_key), header.api_version)(view, pos)
    if end != len(view):
        raise DecodeError(f"{len(view) - end} bytes follow the message")
    return header, message
