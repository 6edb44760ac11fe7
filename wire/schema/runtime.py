"""What generated codec source calls for the rare cases that are not written out in line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NoReturn, cast
from uuid import UUID

from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.schema.types import Buffer, TaggedFields

MAX_STRING_BYTES = 0x7FFF
"""Kafka's limit for a string in every version, although flexible versions could say more."""

SURELY_SHORT_BYTES = MAX_STRING_BYTES // 3
"""A text of at most this many bytes stays within the limit even if each is invalid and replaced by three bytes."""

MAX_REQUEST_ELEMENTS = 1_000_000
"""How many array elements and tagged fields a request may have in all; Kafka has no such limit."""

MAX_TAGGED_FIELDS = 10_000
"""How many unknown tagged fields may stand in one place."""

MAX_VARINT_VALUE = 0x7FFFFFFF

_CUT = b"..."


def read_uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of up to 31 bits; returns it and the position behind it."""
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
    """Read the rest of a tagged field section whose ``count`` byte was not 0 and stood before ``pos``."""
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
    """Append a tagged field section; tags go out in ascending order as KIP-482 demands."""
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
    """Give the UUID of 16 bytes; topic ids come again and again, so the last ones are kept."""
    return UUID(bytes=raw)


def read_long_text(buf: memoryview, pos: int, size: int, name: str) -> str:
    """Read a string that is long, or longer than its limit, also once bytes that are no UTF-8 are replaced.

    Kafka takes the latter in and fails when it answers, which ends the connection; so does this. Raises DecodeError.
    """
    if not 0 <= size <= MAX_STRING_BYTES or pos + size > len(buf):
        refuse_length(buf, pos, size, name)
    text = str(buf[pos : pos + size], "utf-8", "replace")
    if len(text.encode()) > MAX_STRING_BYTES:
        raise DecodeError(f"{name} has more than {MAX_STRING_BYTES} bytes once what is no UTF-8 is replaced")
    return text


def shortened(text: bytes) -> bytes:
    """The beginning of a message that is too long for a string, such as one that quotes a name of its peer's."""
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
    """Refuse an array whose element count cannot fit into what is left of the input."""
    raise DecodeError(f"{name} claims {count} elements at byte {pos} of {len(buf)}")


def refuse_elements() -> NoReturn:
    """Refuse a request that would take far more memory than its bytes."""
    raise DecodeError(f"a request has more than {MAX_REQUEST_ELEMENTS} elements")


def refuse_null(name: str) -> NoReturn:
    """Refuse a null where the version allows none."""
    raise DecodeError(f"{name} is null, which this version does not allow")


def refuse_tag_size(name: str, size: int) -> NoReturn:
    """Refuse a tagged field whose content does not fill its announced size."""
    raise DecodeError(f"tagged field {name} does not fill its {size} bytes")


def refuse_absent(name: str, version: int) -> NoReturn:
    """Refuse to lose a value that the version has no field for."""
    raise EncodeError(f"{name} has a value that version {version} cannot carry")


def refuse_long_string(name: str, size: int) -> NoReturn:
    """Refuse to encode a string that no Kafka client would read."""
    raise EncodeError(f"{name} has {size} bytes of UTF-8, above the limit of {MAX_STRING_BYTES}")
