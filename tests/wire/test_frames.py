"""Splitting a byte stream: any chunks give the same frames, held frames never change, lengths alone cost nothing."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire.errors import DecodeError, FrameTooLargeError
from odradek.wire.frames import MAPPED_FROM_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, FrameReader

LIMIT = 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(reader: FrameReader, stream: bytes, receive_bytes: int = 1 << 30) -> list[memoryview]:
    """Receives ``stream`` in pieces of at most ``receive_bytes``."""
    frames: list[memoryview] = []
    while stream:
        buffer = reader.get_buffer()
        assert len(buffer)
        size = min(len(buffer), len(stream), receive_bytes)
        buffer[:size] = stream[:size]
        stream = stream[size:]
        frames += reader.received(size)
    return frames


@given(
    sizes=st.lists(st.integers(0, 300) | st.integers(3000, 5000) | st.integers(60_000, 140_000), max_size=12),
    receive_bytes=st.integers(1, 50) | st.integers(500, 200_000),
)
def test_any_cut_gives_the_same_frames(sizes: list[int], receive_bytes: int):
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    reader = FrameReader(LIMIT)
    receive_bytes = max(receive_bytes, sum(sizes) // 2000)
    frames = feed(reader, framed(*bodies), receive_bytes)
    # All frames are still held here: if memory were reused, the first ones would have changed.
    assert [bytes(frame) for frame in frames] == bodies
    assert [bytes(frame) for frame in feed(reader, framed(b"next"))] == [b"next"]


def test_small_frames_that_arrive_together_come_out_of_one_receive():
    reader = FrameReader(LIMIT)
    stream = framed(*[b"x" * 20] * 40)
    buffer = reader.get_buffer()
    buffer[: len(stream)] = stream
    frames = reader.received(len(stream))
    assert len(frames) == 40
    assert len({id(frame.obj) for frame in frames}) == 1


def test_a_held_frame_is_never_overwritten():
    reader = FrameReader(LIMIT)
    held = feed(reader, framed(b"first"))
    for _ in range(2000):
        assert [bytes(frame) for frame in feed(reader, framed(b"other" * 100))] == [b"other" * 100]
    assert bytes(held[0]) == b"first"


def test_a_large_frame_has_a_buffer_of_its_own_size():
    body = bytes(range(256)) * 3000
    [frame] = feed(FrameReader(LIMIT), framed(body))
    assert frame == body
    assert len(frame.obj) == len(body)


def test_the_limit_itself_is_allowed_and_one_more_is_not():
    assert len(feed(FrameReader(100), framed(bytes(100)))[0]) == 100
    with pytest.raises(FrameTooLargeError, match=r"announces 101 bytes; socket\.request\.max\.bytes allows 100"):
        feed(FrameReader(100), framed(bytes(101)))


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\x80\0\0\0"])
def test_a_negative_length_is_refused(prefix: bytes):
    with pytest.raises(DecodeError, match="announces -"):
        feed(FrameReader(LIMIT), prefix)


def test_good_frames_before_a_bad_length_are_served_first():
    reader = FrameReader(LIMIT)
    frames = feed(reader, framed(b"good", b"also good") + b"GET / HTTP/1.1")
    assert [bytes(frame) for frame in frames] == [b"good", b"also good"]
    with pytest.raises(FrameTooLargeError):
        reader.get_buffer()


def test_a_claimed_length_costs_no_memory():
    size = 100 * 1024 * 1024
    tracemalloc.start()
    try:
        reader = FrameReader(size)
        assert feed(reader, size.to_bytes(4, "big") + b"x" * 1000) == []
        reader.get_buffer()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MAX_CHUNK_BYTES


def test_a_large_frame_never_holds_more_than_a_few_times_what_came():
    size = 8 * 1024 * 1024
    reader = FrameReader(size)
    feed(reader, size.to_bytes(4, "big"))
    received = 0
    while received < size:
        buffer = reader.get_buffer()
        assert received + len(buffer) <= max(MAX_CHUNK_BYTES, 4 * received)
        step = min(len(buffer), 30_000)
        received += step
        frames = reader.received(step)
        assert len(frames) == (received == size)


def test_a_large_frame_grows_without_being_copied():
    """Copying 99 MB, and filling as much with zeros, would hold the event loop up."""
    size = 99 * 1024 * 1024
    reader = FrameReader(size)
    feed(reader, size.to_bytes(4, "big") + b"begin")
    memory, received, frames = reader.get_buffer().obj, 5, []
    while not frames:
        buffer = reader.get_buffer()
        assert buffer.obj is memory
        received += len(buffer)
        assert reader.large_buffer_bytes == received, "what may be received counts, not what is announced"
        frames = reader.received(len(buffer))
    [frame] = frames
    assert (frame.obj, len(frame), bytes(frame[:6])) == (memory, size, b"begin\0")
    assert reader.large_buffer_bytes == 0


@pytest.mark.parametrize("error", [OSError(12, "Cannot allocate memory"), MemoryError()])
def test_a_large_frame_without_address_space_is_copied(monkeypatch, error):
    def refuse(*_: int, **__: int):
        raise error

    monkeypatch.setattr("mmap.mmap", refuse)
    body = bytes(range(256)) * (MAPPED_FROM_BYTES // 256 + 1)
    assert feed(FrameReader(2 * len(body)), framed(body, b"next"), 1_000_000) == [body, b"next"]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_frames_about_the_size_of_a_mapping(more):
    body = bytes(range(256)) * (MAPPED_FROM_BYTES // 256) + b"x"
    body = body[: MAPPED_FROM_BYTES + more]
    assert feed(FrameReader(2 * len(body)), framed(body, b"next"), 700_000) == [body, b"next"]


def test_quiet_connections_stay_small_and_busy_ones_grow():
    reader = FrameReader(LIMIT)
    assert len(reader.get_buffer().obj) == MIN_CHUNK_BYTES
    feed(reader, framed(*[b"x" * 1000] * 500))
    assert len(reader.get_buffer().obj) == MAX_CHUNK_BYTES
    for _ in range(2000):
        feed(reader, framed(b"x" * 100))
    assert len(reader.get_buffer().obj) == MIN_CHUNK_BYTES


def test_an_empty_frame_is_a_frame():
    assert feed(FrameReader(LIMIT), framed(b"", b"")) == [b"", b""]


@pytest.mark.parametrize("room", [0, 1, 3, 4, 5, 100, 600])
def test_a_frame_cut_near_the_end_of_a_chunk_survives_slow_receives(room: int):
    reader = FrameReader(LIMIT)
    feed(reader, framed(*[b"x" * 1000] * 500))
    size = len(reader.get_buffer()) - room
    # Receiving single bytes makes the next chunk small while a large part of a frame is still in this one.
    bodies = [b"a" * (size - 4), b"b" * 200, b"c" * 5000]
    stream = framed(*bodies)
    assert [bytes(frame) for frame in feed(reader, stream, 7)] == bodies
