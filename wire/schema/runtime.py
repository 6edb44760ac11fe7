"""Functions that generated codecs call for the rare cases that they do not handle inline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NoReturn, cast
from uuid import UUID

from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.schema.types import Buffer, TaggedFields

MAX_STRING_BYTES = 0x7FFF
"""Kafka's limit for a string in every version, although flexible versions could encode longer ones."""

SURELY_SHORT_BYTES = MAX_STRING_BYTES // 3
"""A string of at most this many bytes stays within the limit even if every byte is invalid UTF-8 and replaced by three.
"""

MAX_REQUEST_ELEMENTS = 1_000_000
"""The limit for all array elements and tagged fields of a request together; Kafka has no such limit."""

MAX_TAGGED_FIELDS = 10_000
"""The limit for the unknown tagged fields of one section."""

MAX_VARINT_VALUE = 0x7FFFFFFF

_CUT = b"..."


def read_uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of up to 31 bits; returns it and the position after it."""
    value = 0
    for shift in range(0, 35, 7):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_VARINT_VALUE:
                break
            return value, pos
    raise DecodeError(f"unsigned varint that ends at byte {pos} is longer than 31 bits")


def append_uvarint(out: bytearray, value: int) -> None:
    """Append ``value`` as an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_tagged_fields(buf: memoryview, pos: int, count: int) -> tuple[TaggedFields, int]:
    """Read the rest of a tagged field section after its ``count`` byte, which is not 0 and is just before ``pos``."""
    if count > 0x7F:
        count, pos = read_uvarint(buf, pos - 1)
    if count > MAX_TAGGED_FIELDS:
        refuse_count(buf, pos, count, "a tagged field section")
    found: list[tuple[int, bytes]] = []
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if pos + size > len(buf):
            refuse_length(buf, pos, size, f"tagged field {tag}")
        found.append((tag, bytes(buf[pos : pos + size])))
        pos += size
    return tuple(found), pos


def append_tagged_fields(
    out: bytearray, known: Iterable[tuple[int, Buffer]], unknown: Iterable[tuple[int, Buffer]]
) -> None:
    """Append a tagged field section, in ascending order of tags as KIP-482 requires."""
    fields = sorted([*known, *unknown], key=lambda item: item[0])
    append_uvarint(out, len(fields))
    previous = -1
    for tag, content in fields:
        if tag == previous:
            raise EncodeError(f"tagged field {tag} is given twice")
        previous = tag
        append_uvarint(out, tag)
        append_uvarint(out, len(content))
        out += content


@lru_cache(maxsize=1024)
def read_uuid(raw: bytes) -> UUID:
    """Return the UUID of 16 bytes; cached, since the same topic ids are read repeatedly."""
    return UUID(bytes=raw)


def read_long_text(buf: memoryview, pos: int, size: int, name: str) -> str:
    """Read a string that may exceed the limit, by its length or after invalid UTF-8 is replaced.

    In the latter case Kafka fails when it encodes the response, and closes the connection. This raises DecodeError,
    with the same result.
    """
    if not 0 <= size <= MAX_STRING_BYTES or pos + size > len(buf):
        refuse_length(buf, pos, size, name)
    text = str(buf[pos : pos + size], "utf-8", "replace")
    if len(text.encode()) > MAX_STRING_BYTES:
        raise DecodeError(f"{name} has more than {MAX_STRING_BYTES} bytes once what is no UTF-8 is replaced")
    return text


def shortened(text: bytes) -> bytes:
    """Return the beginning of an error message that is too long for a string, such as one that quotes a name from the
    peer.
    """
    beginning = text[: MAX_STRING_BYTES - len(_CUT)].decode(errors="ignore")
    return beginning.encode() + _CUT


def record_chunks(records: Buffer | Sequence[Buffer]) -> tuple[Sequence[Buffer], int]:
    """Split the value of a ``records`` field into its buffers and their total size in bytes."""
    if isinstance(records, list | tuple):
        chunks = [chunk for chunk in cast("Sequence[Buffer]", records) if chunk]
        return chunks, sum(map(len, chunks))
    one = cast("Buffer", records)
    return (one,) if one else (), len(one)


def refuse_length(buf: memoryview, pos: int, length: int, name: str) -> NoReturn:
    """Refuse a length that is negative, above its limit, or beyond the end of the input."""
    if length < 0:
        raise DecodeError(f"{name} has length {length}")
    raise DecodeError(f"{name} claims {length} bytes at byte {pos} of {len(buf)}")


def refuse_count(buf: memoryview, pos: int, count: int, name: str) -> NoReturn:
    """Refuse an array with more elements than the rest of the input can contain."""
    raise DecodeError(f"{name} claims {count} elements at byte {pos} of {len(buf)}")


def refuse_elements() -> NoReturn:
    """Refuse a request whose decoded objects would take far more memory than its bytes."""
    raise DecodeError(f"a request has more than {MAX_REQUEST_ELEMENTS} elements")


def refuse_null(name: str) -> NoReturn:
    """Refuse a null that the version does not allow."""
    raise DecodeError(f"{name} is null, which this version does not allow")


def refuse_tag_size(name: str, size: int) -> NoReturn:
    """Refuse a tagged field whose content does not fill its announced size."""
    raise DecodeError(f"tagged field {name} does not fill its {size} bytes")


def refuse_absent(name: str, version: int) -> NoReturn:
    """Refuse to encode a value for a field that the version does not have."""
    raise EncodeError(f"{name} has a value that version {version} cannot carry")


def refuse_long_string(name: str, size: int) -> NoReturn:
    """Refuse to encode a string that exceeds the limit of Kafka clients."""
    raise EncodeError(f"{name} has {size} bytes of UTF-8, above the limit of {MAX_STRING_BYTES}")
