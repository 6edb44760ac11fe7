"""Tracks the recently written offsets of a log, which can be read without disk access."""

from collections import deque

MARKS = 64
"""The approximate number of offsets at which the tail may begin. Small commits share one, to limit memory."""


class HotTail:
    """The commits since the log was opened, up to about the last `limit_bytes`.

    One writer, any number of readers.
    """

    __slots__ = ("_bytes", "_grain_bytes", "_limit_bytes", "_marks", "start_offset")

    def __init__(self, limit_bytes: int, log_end_offset: int) -> None:
        self._limit_bytes = limit_bytes
        self._grain_bytes = limit_bytes // MARKS
        self._marks: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self.start_offset = log_end_offset

    def add(self, first_offset: int, size_bytes: int) -> None:
        """Add a commit."""
        if self._marks and self._marks[-1][1] + size_bytes <= self._grain_bytes:
            at, noted_bytes = self._marks[-1]
            self._marks[-1] = (at, noted_bytes + size_bytes)
        else:
            self._marks.append((first_offset, size_bytes))
        self._bytes += size_bytes
        while self._bytes > self._limit_bytes and len(self._marks) > 1:
            self._bytes -= self._marks.popleft()[1]
        self.start_offset = self._marks[0][0]

    def reset(self, log_end_offset: int) -> None:
        """Clear the tail, after a truncation."""
        self._marks.clear()
        self._bytes = 0
        self.start_offset = log_end_offset
