"""For any bytes, a decoder returns or raises ProtocolError, and never allocates memory by announced lengths alone."""

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from request_frames import decode_request
from test_golden_frames import KEYS
from wire_catalogue import GoldenFrame, golden_frames, message_classes, versions_of

from odradek.wire.consumer_metadata import decode_assignment, decode_subscription
from odradek.wire.errors import ProtocolError
from odradek.wire.headers import decode_response
from odradek.wire.messages import request_class, response_class
from odradek.wire.schema.codec import decode
from odradek.wire.schema.schema import Message
from odradek.wire.stored.framing import decode_key, decode_metadata_record, group_key_types

MUTATIONS_PER_FRAME = 12
MAX_PEAK_BYTES = 1024 * 1024
HOSTILE = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x07",
    b"\x7f\xff",
    b"\xff",
    b"\0",
]


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
@settings(max_examples=4, deadline=None)
@given(content=st.binary(max_size=200) | st.lists(st.sampled_from([*HOSTILE, b"\1", b"\2"])).map(b"".join))
def test_random_bytes(cls: type[Message], content: bytes):
    for version in versions_of(cls):
        try:
            decode(cls, version, content)
        except ProtocolError:
            continue


@given(content=st.binary(max_size=60))
def test_random_bytes_as_frames_and_stored_records(content: bytes):
    for read in (
        decode_request,
        decode_metadata_record,
        decode_subscription,
        decode_assignment,
        lambda buf: decode_key(buf, group_key_types()),
    ):
        try:
            read(content)
        except ProtocolError:
            continue


def mutations(frame: GoldenFrame, chance: random.Random) -> Iterator[bytes]:
    for _ in range(MUTATIONS_PER_FRAME):
        content = bytearray(frame.content)
        position = chance.randrange(len(content) + 1)
        match chance.randrange(4):
            case 0:
                del content[position:]
            case 1:
                evil = chance.choice(HOSTILE)
                content[position : position + len(evil)] = evil
            case 2:
                content[position:position] = chance.choice(HOSTILE)
            case _:
                for _ in range(chance.randrange(1, 6)):
                    content[chance.randrange(len(content))] = chance.randrange(256)
        yield bytes(content)


def read(frame: GoldenFrame, content: bytes) -> bool:
    try:
        if frame.is_request:
            decode_request(content)
        else:
            decode_response(KEYS[frame.api], frame.version, content)
    except ProtocolError:
        return False
    return True


def test_mutated_frames_of_real_clients_stay_small():
    for key in KEYS.values():
        assert request_class(key), response_class(key)
    for frame in golden_frames():
        assert read(frame, frame.content)
    chance = random.Random(20_261_121)
    results: list[bool] = []
    tracemalloc.start()
    try:
        for frame in golden_frames():
            for content in mutations(frame, chance):
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                results.append(read(frame, content))
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < MAX_PEAK_BYTES, (frame.api, frame.version, content)
    finally:
        tracemalloc.stop()
    assert len(results) == MUTATIONS_PER_FRAME * len(golden_frames())
    assert 0 < sum(results) < len(results)
