"""CRC-32C (Castagnoli), the checksum of record batches v2."""

from typing import TypeAlias

from crc32c import crc32c as _crc32c

BytesLike: TypeAlias = bytes | bytearray | memoryview
"""A contiguous run of bytes, writable or not."""


def crc32c(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32C of `data`, continuing from `value`, the checksum of the bytes before it. Copies
    nothing.
    """
    return _crc32c(data, value)
