"""Writes records to stdout for `consume`, and counts the complete ones, also if a signal ends the writing."""

import errno
import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from odradek.gateway.cli.output import Meter, descriptor_of
from odradek.gateway.cli.polling import CAN_POLL, NEVER_BLOCKING_BYTES, has_lost_its_reader, is_writable
from odradek.gateway.cli.signals import Stop

MAX_POLL_RECORDS = 10_000


class Sink:
    """Writes records and counts them, up to `limit`."""

    def __init__(self, stream: BinaryIO, limit: int | None, progress: Meter, stop: Stop) -> None:
        self._left = limit
        self._progress = progress
        self._stop = stop
        self._stream = stream
        sys.stdout.flush()
        self._descriptor = descriptor_of(stream) if CAN_POLL else None

    @property
    def room(self) -> int:
        """The number of records that the next poll may return; 0 when the limit is reached."""
        return MAX_POLL_RECORDS if self._left is None else min(self._left, MAX_POLL_RECORDS)

    def require_reader(self) -> None:
        """Raise BrokenPipeError if stdout is a pipe that nothing reads any more, even if there is nothing to write."""
        if self._descriptor is not None and has_lost_its_reader(self._descriptor):
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
            self._write_through(data)
            return len(data)
        view, taken = memoryview(data), 0
        while taken < len(data) and self._may_write(self._descriptor):
            taken += os.write(self._descriptor, view[taken : taken + NEVER_BLOCKING_BYTES])
        return taken

    def _write_through(self, data: bytes) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            if sys.platform == "win32" and error.errno == errno.EINVAL:  # what Windows says of a pipe without a reader
                raise BrokenPipeError from error
            raise

    def _may_write(self, descriptor: int) -> bool:
        """Wait until writing does not block, or a signal comes; returns True if writing does not block."""
        return is_writable(descriptor, self._stop.descriptor)


def _whole(lines: Sequence[bytes], taken: int) -> int:
    for number, line in enumerate(lines):
        taken -= len(line)
        if taken < 0:
            return number
    return len(lines)
