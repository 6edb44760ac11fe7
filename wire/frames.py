"""Splits a byte stream into frames: an int32 length, then that many bytes.  No I/O happens here.

The caller receives into the buffer that :meth:`FrameReader.get_buffer` returns, and passes the number of bytes received
to :meth:`FrameReader.received`::

    while size := await receive_into(reader.get_buffer()):
        for frame in reader.received(size):
            ...

How memory is used:

- Small frames share a chunk, so one receive can return many of them. A chunk is filled once from its start to its end,
  then replaced and never reused: frames are views of it, and keep it alive. (Reusing a receive buffer while a commit is
  pending would silently corrupt batches.)
- A frame that does not fit into the rest of the chunk gets its own buffer.  Above ``MAX_CHUNK_BYTES`` it grows with the
  bytes actually received, at most fourfold at a time, so an announced length alone allocates little.
- From ``MAPPED_FROM_BYTES`` on, the buffer is a mapping of the frame's whole size, of which the system provides each
  page when it is first written. So it grows without a copy, and nothing is filled with zeros: for the largest frames
  both would take more than a tenth of a second, in which the caller's event loop serves nobody.
- Chunks start small, grow while receives fill them and shrink while they do not, so that thousands of idle connections
  need little memory.
"""

from __future__ import annotations

import mmap
import struct
import sys

from odradek.wire.errors import DecodeError, FrameTooLargeError, ProtocolError

LENGTH_BYTES = 4
_LENGTH = struct.Struct(">i")
MIN_CHUNK_BYTES = 4 * 1024
MAX_CHUNK_BYTES = 64 * 1024
MIN_RECEIVE_BYTES = 512
"""A chunk with less room than this is replaced."""

GROWTH = 4
"""The maximal size of a frame's own buffer above ``MAX_CHUNK_BYTES``, as a multiple of the bytes received for it."""


MAPPED_FROM_BYTES = 4 * 1024 * 1024
"""The size from which a frame has a mapping of its own; for smaller frames copying costs less than making one."""


class FrameReader:
    """Splits the input of one connection into frames.

    ``max_frame_bytes`` is the broker's ``socket.request.max.bytes``.  After an error nothing more can
    be read: the stream has lost its frame boundaries.  ``large_buffer_bytes`` is the size of the unfinished
    frame's own buffer, 0 when it has none; it grows in :meth:`get_buffer`.
    """

    __slots__ = (
        "_big",
        "_big_bytes",
        "_big_end",
        "_big_room",
        "_chunk",
        "_chunk_bytes",
        "_end",
        "_max_frame_bytes",
        "_start",
        "fault",
        "large_buffer_bytes",
    )

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._chunk_bytes = MIN_CHUNK_BYTES
        self._chunk = memoryview(bytearray(self._chunk_bytes))
        self._start = 0  # of the bytes received but not yet returned
        self._end = 0  # of the bytes received
        self._big: memoryview | None = None  # a large frame's own buffer
        self._big_bytes = 0  # the length of that frame
        self._big_end = 0  # how much of it has been received
        self._big_room = 0  # how much of its buffer may be used so far
        self.fault: ProtocolError | None = None
        self.large_buffer_bytes = 0

    def get_buffer(self) -> memoryview:
        """Return the buffer to receive into; never empty.

        Raises `fault`, the error that the last :meth:`received` found after valid frames.
        """
        if self.fault is not None:
            raise self.fault
        if self._big is not None:
            if self._big_end == self._big_room:
                self._big = self._grow(self._big)
            return self._big[self._big_end : self._big_room]
        # A frame whose length is known fits into the chunk, else it would have its own buffer.
        length_is_known = self._end - self._start >= LENGTH_BYTES
        if not length_is_known and len(self._chunk) - self._end < MIN_RECEIVE_BYTES:
            self._renew_chunk()
        return self._chunk[self._end :]

    def received(self, size: int) -> list[memoryview]:
        """Account for ``size`` bytes received into the buffer; returns the frames that are complete now.

        Frames come in order, without their length.  Raises FrameTooLargeError for a length above the
        limit and DecodeError for a negative one, at once or, when valid frames precede it, at the next
        :meth:`get_buffer`.
        """
        if self._big is not None:
            self._big_end += size
            return self._finish_big(self._big)
        chunk, start, end = self._chunk, self._start, self._end
        if size == len(chunk) - end or self._chunk_bytes > MIN_CHUNK_BYTES:
            self._adapt(size)
        self._end = end = end + size
        frames: list[memoryview] = []
        while end - start >= LENGTH_BYTES:
            body = start + LENGTH_BYTES
            (frame_bytes,) = _LENGTH.unpack_from(chunk, start)
            if not 0 <= frame_bytes <= self._max_frame_bytes:
                self.fault = self._refusal(frame_bytes)
                if not frames:
                    raise self.fault
                break
            past = body + frame_bytes
            if past > end:
                if past > len(chunk):
                    self._start_big(frame_bytes, chunk[body:end])
                    return frames
                break
            frames.append(chunk[body:past])
            start = past
        self._start = start
        return frames

    def _refusal(self, size: int) -> ProtocolError:
        if size < 0:
            return DecodeError(f"a frame announces {size} bytes")
        return FrameTooLargeError(
            f"a frame announces {size} bytes; socket.request.max.bytes allows {self._max_frame_bytes}"
        )

    def _start_big(self, size: int, beginning: memoryview) -> None:
        self._big_bytes = size
        self._big_end = len(beginning)
        self._big = _large_buffer(size, beginning)
        self.large_buffer_bytes = self._big_room = len(beginning)  # get_buffer enlarges it
        self._renew_chunk(keep=False)

    def _grow(self, buffer: memoryview) -> memoryview:
        """Return the buffer with more room: for the whole frame, or at first ``GROWTH`` times what was received."""
        room = min(self._big_bytes, max(MAX_CHUNK_BYTES, GROWTH * self._big_end))
        if len(buffer) < room:
            grown = memoryview(bytearray(room))
            grown[: self._big_end] = buffer
            buffer = grown
        self.large_buffer_bytes = self._big_room = room
        return buffer

    def _finish_big(self, buffer: memoryview) -> list[memoryview]:
        if self._big_end == self._big_bytes:
            self._big = None
            self.large_buffer_bytes = 0
            return [buffer]
        return []

    def _renew_chunk(self, *, keep: bool = True) -> None:
        rest = self._chunk[self._start : self._end] if keep else b""
        self._chunk = memoryview(bytearray(self._chunk_bytes))
        self._chunk[: len(rest)] = rest
        self._start, self._end = 0, len(rest)

    def _adapt(self, size: int) -> None:
        """Choose the size of the next chunk by the ``size`` of the last receive."""
        if size == len(self._chunk) - self._end:
            self._chunk_bytes = min(self._chunk_bytes * 2, MAX_CHUNK_BYTES)
        elif size * GROWTH < self._chunk_bytes:
            self._chunk_bytes = max(self._chunk_bytes // 2, MIN_CHUNK_BYTES)


def _large_buffer(size: int, beginning: memoryview) -> memoryview:
    """Return a buffer that starts with ``beginning``: of ``size`` bytes if that takes no memory yet, else no longer."""
    if size < MAPPED_FROM_BYTES:
        return memoryview(bytearray(beginning))
    try:
        buffer = memoryview(_mapping(size))
    except (OSError, ValueError, MemoryError):  # the process may not have so much address space
        return memoryview(bytearray(beginning))
    buffer[: len(beginning)] = beginning
    return buffer


def _mapping(size: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
