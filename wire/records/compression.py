"""The five codecs of record batches; the output of every decompression is limited.

One library, cramjam, serves all four formats; it is imported for the first compressed batch. The output is readable by
the Java client: xerial framing for snappy, and LZ4 frames of independent blocks, since Java's decoder refuses linked
ones. Input may be from any client: also raw snappy (librdkafka), linked LZ4 blocks, several frames in a row.
"""

from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from odradek.wire.records.batch import Codec
from odradek.wire.records.crc import BytesLike
from odradek.wire.records.errors import CorruptBatch, RecordTooLarge, UnsupportedCodec

if TYPE_CHECKING:
    from cramjam import Buffer

DEFAULT_MAX_RECORDS_BYTES: Final = 100 * 1024 * 1024
"""The default limit for the decompressed records of one batch: the default of Kafka's socket.request.max.bytes."""

_FIRST_GUESS_BYTES: Final = 4096
_FIRST_GUESS_RATIO: Final = 4
_GUESS_GROWTH: Final = 8

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 22
"""Snappy's best ratio is 64 bytes from a 3-byte copy, so a larger stated size is false, and is refused before
allocating.
"""


def compress(codec: int, data: BytesLike, level: int | None = None) -> bytes:
    """Compress the records section of a batch; `level` is the codec's own scale, and ignored by none and
    snappy.

    Raises UnsupportedCodec.
    """
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec == Codec.LZ4:
        return _compress_lz4(data, level)
    if codec not in (Codec.GZIP, Codec.ZSTD):
        raise UnsupportedCodec(codec)
    return bytes(_library(codec).compress(data, level))


def decompress(codec: int, data: BytesLike, max_bytes: int = DEFAULT_MAX_RECORDS_BYTES) -> memoryview:
    """Decompress the records section of a batch into at most `max_bytes`; without a codec, `data` itself.

    Raises UnsupportedCodec, CorruptBatch, or RecordTooLarge if the output is larger. Never allocates more than
    `max_bytes` for output.
    """
    if codec == Codec.NONE:
        return _within(memoryview(data), max_bytes)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec not in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        raise UnsupportedCodec(codec)
    return _decompress_frames(codec, data, max_bytes)


class _Library(Protocol):
    """The functions that cramjam's modules for self-delimiting formats have in common."""

    def compress(self, data: BytesLike, level: int | None = None, /) -> "Buffer": ...
    def decompress_into(self, data: BytesLike, output: bytearray, /) -> int: ...


def _library(codec: int) -> _Library:
    import cramjam  # noqa: PLC0415 - most brokers never decode a compressed batch

    if codec == Codec.GZIP:
        return cramjam.gzip
    return cramjam.lz4 if codec == Codec.LZ4 else cramjam.zstd


def _within(data: memoryview, max_bytes: int) -> memoryview:
    if len(data) > max_bytes:
        raise RecordTooLarge(max_bytes)
    return data


def _decompress_frames(codec: int, data: BytesLike, max_bytes: int) -> memoryview:
    """Decompress, with a small output buffer first and larger ones up to the limit: sizes stated in frames are not
    trusted.
    """
    import cramjam  # noqa: PLC0415

    library = _library(codec)
    size = min(max_bytes, max(_FIRST_GUESS_BYTES, _FIRST_GUESS_RATIO * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = library.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _output_full_text(codec):
                raise CorruptBatch(f"{Codec(codec).name.lower()} data is damaged: {error}") from error
            if size == max_bytes:
                raise RecordTooLarge(max_bytes) from error
            size = min(max_bytes, size * _GUESS_GROWTH)
        else:
            del output[written:]
            return memoryview(output)


@cache
def _output_full_text(codec: int) -> str:
    """Return the library's error text for a full output buffer, by provoking the error: the text is not documented."""
    import cramjam  # noqa: PLC0415

    try:
        _library(codec).decompress_into(compress(codec, b"two"), bytearray(1))
    except cramjam.DecompressionError as error:
        return str(error)
    raise AssertionError("three bytes were decompressed into one")


def _compress_lz4(data: BytesLike, level: int | None) -> bytes:
    import cramjam  # noqa: PLC0415

    compressor = cramjam.lz4.Compressor(level=level, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_xerial(data: memoryview) -> bytes:
    import cramjam  # noqa: PLC0415

    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview, max_bytes: int) -> memoryview:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return memoryview(_decompress_block(data, max_bytes))
    if len(data) < len(_XERIAL_HEADER):
        raise CorruptBatch("xerial snappy data ends inside its header")
    return memoryview(_decompress_xerial(data, max_bytes))


def _decompress_xerial(data: memoryview, max_bytes: int) -> bytearray:
    out = bytearray()
    position, end = len(_XERIAL_HEADER), len(data)
    while position < end:
        start = position + 4
        length = int.from_bytes(data[position:start], "big", signed=True)
        if length <= 0 or start + length > end:
            raise CorruptBatch(f"xerial snappy block of {length} bytes with {end - position} left")
        try:
            out += _decompress_block(data[start : start + length], max_bytes - len(out))
        except RecordTooLarge as error:
            raise RecordTooLarge(max_bytes) from error
        position = start + length
    return out


def _decompress_block(block: memoryview, max_bytes: int) -> bytearray:
    import cramjam  # noqa: PLC0415

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_MAX_RATIO * len(block):
            raise CorruptBatch(f"a snappy block of {len(block)} bytes claims to hold {size}")
        if size > max_bytes:
            raise RecordTooLarge(max_bytes)
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy data is damaged: {error}") from error
    return output
