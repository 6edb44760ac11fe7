"""The batches on a simulated broker's disk; segments that have neither grown nor been cut are not read again."""

from bisect import bisect_left
from operator import itemgetter

from odradek.storage_backends.memory.log import MemorySegment
from odradek.storage_backends.memory.medium import MediumLog

Batch = tuple[int, int, bytes]
"""The base offset, the offset after it, and the bytes."""


def place_of(committed: list[Batch], base_offset: int) -> int:
    """The place among the committed batches of the one with this base offset."""
    return bisect_left(committed, base_offset, key=itemgetter(0)) if base_offset else 0


class SeenSegments:
    """The segments up to which a log was read, with the number of batches of each. A batch never changes."""

    def __init__(self, log: MediumLog) -> None:
        self._log = log
        self._seen: list[tuple[MemorySegment, int]] = []

    def see(self) -> tuple[int, int]:
        """Returns the first changed segment and the number of batches before it, and marks all segments as seen."""
        segments, first, batches = self._log.live.segments, 0, 0
        for segment, (seen, count) in zip(segments, self._seen, strict=False):
            if segment is not seen or len(segment.batches) != count:
                break
            first, batches = first + 1, batches + count
        self._seen[first:] = [(each, len(each.batches)) for each in segments[first:]]
        return first, batches


class DiskReader:
    """Reads all batches of a disk. Must be called after each cut, before more is written."""

    def __init__(self, log: MediumLog) -> None:
        self._log = log
        self._segments = SeenSegments(log)
        self._read: list[Batch] = []

    def read(self) -> list[Batch]:
        """All batches, in a list that the caller may extend: the next call restores it."""
        first, batches = self._segments.see()
        del self._read[batches:]
        for segment in self._log.live.segments[first:]:
            self._read += [(each.base_offset, each.last_offset + 1, each.data) for each in segment.batches]
        return self._read


class Held:
    """How many of the committed batches a disk has. A batch is compared once, unless the disk was cut below it.

    Batches that end below the highest deleted offset do not count: `missing` is the number of committed batches before
    the first one that counts.
    """

    def __init__(self, log: MediumLog) -> None:
        self.log = log
        self.forget()

    def forget(self) -> None:
        """Compare all batches again at the next call of `has`."""
        self.missing = self._batches = self._segment = self._place = 0
        self._first: MemorySegment | None = None

    def was_cut(self) -> None:
        """The newest batches of the disk were removed: those that are left and were compared are the same as before."""
        first, missing, left = self._first, self.missing, self._batches
        self.forget()
        if missing or not left or first is not self.log.live.segments[0]:
            return
        self._first = first
        for index, segment in enumerate(self.log.live.segments):
            self._segment, self._place = index, min(left - self._batches, len(segment.batches))
            self._batches += self._place
            if self._batches == left:
                break

    def has(self, committed: list[Batch], deleted: int) -> bool:
        segments = self.log.live.segments
        if self._first is not segments[0]:
            self._begin(committed, deleted)
        while self._batches < len(committed):
            batches = segments[self._segment].batches
            if self._place < len(batches):
                batch = batches[self._place]
                if (batch.base_offset, batch.last_offset + 1, batch.data) != committed[self._batches]:
                    return False
                self._place, self._batches = self._place + 1, self._batches + 1
            elif self._segment + 1 < len(segments):
                self._segment, self._place = self._segment + 1, 0
            else:
                return False
        return True

    def _begin(self, committed: list[Batch], deleted: int) -> None:
        self.forget()
        segments = self.log.live.segments
        for index, segment in enumerate(segments):
            for place, batch in enumerate(segment.batches):
                if batch.last_offset >= deleted:
                    self._first, self._segment, self._place = segments[0], index, place
                    self._batches = self.missing = place_of(committed, batch.base_offset)
                    return
