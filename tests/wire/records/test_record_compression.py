"""Codecs: both framings of snappy, compatibility with Java and other implementations, and decompression bombs."""

import gzip as stdlib_gzip
import subprocess
import sys
from contextlib import suppress

import aiokafka.codec
import cramjam
import kafka.codec
import lz4.frame
import pytest
import snappy as python_snappy
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.wire.records.batch import Codec
from odradek.wire.records.compression import compress, decompress
from odradek.wire.records.errors import CorruptBatch, InvalidRecordBatch, RecordTooLarge, UnsupportedCodec

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
payloads = st.binary(max_size=200) | st.builds(lambda b, n: b * n, st.binary(max_size=9), st.integers(0, 20_000))
TEXT = b"some text that repeats itself, " * 3000


@pytest.mark.parametrize("codec", list(Codec))
@given(payloads)
def test_what_goes_in_comes_out(codec: Codec, data: bytes) -> None:
    packed = compress(codec, memoryview(data))
    assert decompress(codec, packed, max(len(data), len(packed))) == data
    assert decompress(codec, memoryview(bytearray(b"x" + packed))[1:]) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_bound_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    for bound in (len(TEXT) - 1, 5000, 1, 0):
        with pytest.raises(RecordTooLarge) as caught:
            decompress(codec, packed, bound)
        assert caught.value.max_bytes == bound


def test_uncompressed_records_are_bounded_and_not_copied() -> None:
    data = bytearray(b"12345")
    view = decompress(Codec.NONE, data, 5)
    data[0] = 0x39
    assert view == b"92345"
    with pytest.raises(RecordTooLarge):
        decompress(Codec.NONE, data, 4)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_named(codec: int) -> None:
    with pytest.raises(UnsupportedCodec, match=f"codec {codec}"):
        decompress(codec, b"", 10)
    with pytest.raises(UnsupportedCodec):
        compress(codec, b"")


def test_trap_13_snappy_is_written_with_xerial_framing() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert kafka.codec.snappy_decode(packed) == TEXT
    assert aiokafka.codec.snappy_decode(packed) == TEXT


def test_trap_13_raw_and_xerial_snappy_are_both_read() -> None:
    assert decompress(Codec.SNAPPY, python_snappy.compress(TEXT), len(TEXT)) == TEXT
    assert decompress(Codec.SNAPPY, kafka.codec.snappy_encode(TEXT), len(TEXT)) == TEXT
    assert decompress(Codec.SNAPPY, aiokafka.codec.snappy_encode(TEXT, xerial_compatible=False), len(TEXT)) == TEXT


def test_trap_13_lz4_frames_have_independent_blocks_which_java_demands() -> None:
    packed = compress(Codec.LZ4, TEXT)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0xC0 == 0x40, "frame version 01"
    assert packed[4] & 0x20, "blocks are independent"
    assert lz4.frame.decompress(packed) == TEXT
    assert decompress(Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True)) == TEXT


def test_other_implementations_read_what_we_write_and_the_reverse() -> None:
    assert stdlib_gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert decompress(Codec.GZIP, stdlib_gzip.compress(TEXT)) == TEXT
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(Codec.ZSTD, TEXT)) == TEXT
    assert decompress(Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)) == TEXT
    assert decompress(Codec.LZ4, kafka.codec.lz4_encode(TEXT)) == TEXT


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_levels_change_the_size(codec: Codec) -> None:
    # Words without a repeating pattern: both levels compress, the higher one more.
    words = TEXT.split()
    data = b" ".join(words[i * i % 5] + b"%d" % (i**3 % 997) for i in range(20_000))
    sizes = [len(compress(codec, data, level)) for level in (1, 9)]
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, b"text " * 20)
    for end in range(1, len(packed)):
        if codec == Codec.SNAPPY and end in (16, len(packed)):
            continue  # a xerial header without blocks is an empty stream, not a truncated one
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:end], 1000)


@pytest.mark.parametrize("codec", COMPRESSED)
@settings(max_examples=150)
@given(st.data())
def test_damaged_data_raises_only_our_errors(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, data.draw(payloads)))
    for position, value in data.draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4)):
        packed[position % len(packed) if packed else 0 : position % len(packed) + 1 if packed else 0] = [value]
    with suppress(InvalidRecordBatch):  # no other errors are allowed
        assert len(decompress(codec, packed, 50_000)) <= 50_000


@pytest.mark.parametrize("codec", COMPRESSED)
@given(st.binary(max_size=80))
@example(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff")
@example(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xffabc")
@example(b"\x82SNAPPY\x00\x00")
@example(b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff" + bytes(8))
def test_noise_raises_only_our_errors(codec: Codec, noise: bytes) -> None:
    with suppress(InvalidRecordBatch):  # no other errors are allowed
        assert len(decompress(codec, noise, 50_000)) <= 50_000


def test_a_snappy_block_cannot_claim_more_than_snappy_can_hold() -> None:
    claim = b"\x80\x80\x80\x20" + b"\x00" * 20  # 64 MiB from 24 bytes
    with pytest.raises(CorruptBatch, match="claims"):
        decompress(Codec.SNAPPY, claim, 100 * 2**20)


BOMB = """
import resource, sys
from odradek.wire.records.batch import Codec
from odradek.wire.records.compression import compress, decompress
from odradek.wire.records.errors import RecordTooLarge

codec = Codec(int(sys.argv[1]))
frame = compress(codec, bytes(16 * 2**20))
if codec == Codec.SNAPPY:
    frame = frame[:16] + frame[16:] * 64
else:
    frame *= 64
decompress(codec, compress(codec, b"warm"), 100)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, frame, 2**20)
except RecordTooLarge:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_of_a_gigabyte_is_refused_within_the_bound(codec: Codec) -> None:
    # The peak of the process already includes the 16 MiB that built the bomb; more would be the output.
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(int(codec))], capture_output=True, text=True, check=True, timeout=100
    )
    assert int(done.stdout) < 32 * 1024, "KiB more than before"


def test_the_library_reports_full_output() -> None:
    for module in (cramjam.gzip, cramjam.lz4, cramjam.zstd):
        full, damaged = (error_text(module, data) for data in (bytes(module.compress(b"two")), b"\x00" * 30))
        assert full != damaged


def error_text(module, data: bytes) -> str:
    with pytest.raises(cramjam.DecompressionError) as caught:
        module.decompress_into(data, bytearray(1))
    return str(caught.value)
