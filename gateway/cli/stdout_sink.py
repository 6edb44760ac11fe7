"""Writes records to stdout for `consume`, and counts the complete ones, also if a signal ends the writing."""

import os
import select
import sys
from collections.abc import Sequence
from typing import BinaryIO

from odradek.gateway.cli.output import Meter, descriptor_of
from odradek.gateway.cli.signals import Stop

MAX_POLL_RECORDS = 10_000
NEVER_BLOCKING_BYTES = select.PIPE_BUF
"""The largest write that certainly does not block on a pipe that is ready for writing."""


class Sink:
    """Writes records and counts them, up to `limit`."""

    def __init__(self, stream: BinaryIO, limit: int | None, progress: Meter, stop: Stop) -> None:
        self._left = limit
        self._progress = progress
        self._stop = stop
        self._stream = stream
        sys.stdout.flush()
        self._descriptor = descriptor_of(stream)

    @property
    def room(self) -> int:
        """The number of records that the next poll may return; 0 when the limit is reached."""
        return MAX_POLL_RECORDS if self._left is None else min(self._left, MAX_POLL_RECORDS)

    def require_reader(self) -> None:
        """Raise BrokenPipeError if stdout is a pipe that nothing reads any more, even if there is nothing to write."""
        if self._descriptor is not None and any(event & select.POLLERR for _, event in _watched(self._descriptor, 0)):
            raise BrokenPipeError

    def write(self, lines: Sequence[bytes]) -> int:
        """Write these records without buffering; returns how many were written completely: all, unless a signal came.

        Raises BrokenPipeError if nothing reads the pipe any more; how much was read is then not known.
        """
        data = b"".join(lines)
        taken = self._write_all(data)
        count = len(lines) if taken == len(data) else _whole(lines, taken)
        self._progress.advance(count, taken)
        if self._left is not None:
            self._left -= count
        return count

    def _write_all(self, data: bytes) -> int:
        if self._descriptor is None:
            self._stream.write(data)
            return len(data)
        view, taken = memoryview(data), 0
        while taken < len(data) and self._may_write(self._descriptor):
            taken += os.write(self._descriptor, view[taken : taken + NEVER_BLOCKING_BYTES])
        return taken

    def _may_write(self, descriptor: int) -> bool:
        """Wait until writing does not block, or a signal comes; returns True if writing does not block."""
        also = self._stop.descriptor
        return any(each == descriptor for each, _ in _watched(descriptor, None, also))


def _whole(lines: Sequence[bytes], taken: int) -> int:
    for number, line in enumerate(lines):
        taken -= len(line)
        if taken < 0:
            return number
    return len(lines)


def _watched(descriptor: int, timeout_ms: int | None, also: int | None = None) -> list[tuple[int, int]]:
    watched = select.poll()
    watched.register(descriptor, select.POLLOUT)
    if also is not None:
        watched.register(also, select.POLLIN)
    return watched.poll(timeout_ms)
