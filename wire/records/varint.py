"""Zigzag varints, the encoding of all lengths and deltas in records: at most 5 bytes for 32 bits, 10 for 64."""

from functools import lru_cache

from odradek.wire.records.errors import CorruptBatch

_INT64_SPAN = 1 << 64
_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a 32-bit zigzag varint: (value, position after it).

    Raises CorruptBatch for more than 32 bits, and IndexError when the data ends inside the number: callers convert that
    to CorruptBatch once, for the whole record.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_zigzag(data, position, 32)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Read a 64-bit zigzag varint: (value, position after it). Raises as `read_varint` does."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_zigzag(data, position, 64)


def write_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint; `value` is a signed 32-bit or 64-bit integer."""
    write_unsigned(out, value << 1 if value >= 0 else (-value << 1) - 1)


@lru_cache(maxsize=1024)
def varint(value: int) -> bytes:
    """Return the bytes of a zigzag varint, from a cache for frequent lengths and deltas."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    if zigzag < 0x80:
        return bytes((zigzag,))
    if zigzag < 0x4000:
        return bytes((zigzag & 0x7F | 0x80, zigzag >> 7))
    out = bytearray()
    write_unsigned(out, zigzag)
    return bytes(out)


def write_unsigned(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def wrap_int64(value: int) -> int:
    """Return `value` wrapped to a signed 64-bit integer, as in Java: Kafka's timestamp deltas may overflow."""
    if _INT64_MIN <= value <= _INT64_MAX:
        return value
    value &= _INT64_SPAN - 1
    return value - _INT64_SPAN if value > _INT64_MAX else value


def _read_zigzag(data: bytes, position: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > bits:
            raise CorruptBatch(f"a varint of more than {bits} bits")
    if value >> bits:
        raise CorruptBatch(f"a varint of more than {bits} bits")
    return (value >> 1) ^ -(value & 1), position
