"""Strings beyond Kafka's limit are refused on decoding, and messages that quote long ones are shortened."""

import struct

import pytest
from request_frames import decode_request_header

from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.schema.codec import decode_exact, encode
from odradek.wire.schema.runtime import MAX_STRING_BYTES

FLEXIBLE, OLD = 3, 2
LONGEST_KEYS = ["k" * MAX_STRING_BYTES, "ü" * (MAX_STRING_BYTES // 2)]


def request(raw: bytes, version: int) -> bytes:
    """FindCoordinator with these bytes as its key."""
    if version == OLD:
        return struct.pack(">h", len(raw)) + raw + b"\0"
    size, prefix = len(raw) + 1, bytearray()
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*prefix, size]) + raw + b"\0\0"


@pytest.mark.parametrize("version", [OLD, FLEXIBLE])
@pytest.mark.parametrize("key", LONGEST_KEYS, ids=["one byte each", "two bytes each"])
def test_the_longest_string_comes_through(key, version):
    message = FindCoordinatorRequest(key=key)
    assert decode_exact(FindCoordinatorRequest, version, encode(message, version)) == message


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        pytest.param(b"k" * (MAX_STRING_BYTES + 1), FLEXIBLE, id="one byte too long"),
        pytest.param(b"k" * 1_000_000, FLEXIBLE, id="very long"),
        pytest.param(b"\xff" * (MAX_STRING_BYTES // 3 + 1), FLEXIBLE, id="too long once replaced"),
        pytest.param(b"\xff" * MAX_STRING_BYTES, OLD, id="too long once replaced, old version"),
    ],
)
def test_a_longer_one_is_refused(raw, version):
    with pytest.raises(DecodeError, match="key"):
        decode_exact(FindCoordinatorRequest, version, request(raw, version))


def test_bytes_that_are_no_utf_8_are_replaced():
    for count in (1, MAX_STRING_BYTES // 3):
        found = decode_exact(FindCoordinatorRequest, FLEXIBLE, request(b"\xff" * count, FLEXIBLE))
        assert found.key == "\ufffd" * count


def test_a_client_id_that_cannot_be_written_again_is_refused():
    raw = b"\xff" * MAX_STRING_BYTES
    with pytest.raises(DecodeError, match="client id"):
        decode_request_header(struct.pack(">hhih", 18, 0, 1, len(raw)) + raw)


@pytest.mark.parametrize("version", [4, 7])
def test_a_long_message_is_shortened(version):
    quoted = "No topic is called " + "ü" * MAX_STRING_BYTES
    result = CreatableTopicResult(name="t", error_code=17, error_message=quoted)
    found = decode_exact(CreateTopicsResponse, version, encode(CreateTopicsResponse(topics=(result,)), version))
    message = found.topics[0].error_message
    assert quoted.startswith(message.removesuffix("..."))
    assert MAX_STRING_BYTES - 4 < len(message.encode()) <= MAX_STRING_BYTES


def test_any_other_long_string_is_a_bug_of_ours():
    with pytest.raises(EncodeError):
        encode(CreateTopicsResponse(topics=(CreatableTopicResult(name="t" * (MAX_STRING_BYTES + 1)),)), 4)
