"""A cache of the newest batches of all logs, within one budget, for consumers near the log end."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from odradek.partitions.model import StoredBatch
from odradek.storage_backends.interface import Rest


class HotTail:
    """The newest batches of one log, contiguous up to its end. Guarded by the lock of its `HotTails`."""

    def __init__(self, tails: "HotTails", end_offset: int) -> None:
        self._tails = tails
        self.batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self._first = 0  # index of the first batch not dropped
        self.start_offset = end_offset

    def append(self, batches: Sequence[StoredBatch], start_offset: int, *, restarts: bool) -> None:
        """Add committed batches; `start_offset` is the previous log end or, with `restarts`, the new start of the
        emptied log.
        """
        with self._tails.lock:
            if restarts:
                self._clear(start_offset)
            self.batches += batches
            self._last_offsets += [batch.last_offset for batch in batches]
            self._tails.count(self, sum([len(batch.data) for batch in batches]))

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> tuple[list[memoryview], Rest] | None:
        """See `PartitionStore.read`: the batches and what it leaves; None if `start_offset` is before the kept ones."""
        with self._tails.lock:
            if start_offset < self.start_offset:
                return None
            chunks: list[memoryview] = []
            at = bisect_left(self._last_offsets, start_offset, self._first)
            while at < len(self.batches):
                batch = self.batches[at]
                if batch.last_offset >= end_offset:
                    break
                if chunks and len(batch.data) > max_bytes:
                    return chunks, Rest.CUT
                chunks.append(memoryview(batch.data))
                max_bytes -= len(batch.data)
                at += 1
            return chunks, Rest.NOTHING

    def forget(self, end_offset: int) -> None:
        """Drop all batches; the log ends at `end_offset`."""
        with self._tails.lock:
            self._clear(end_offset)

    def _clear(self, end_offset: int) -> None:
        self._tails.count(self, -sum([len(batch.data) for batch in self.batches[self._first :]]))
        self.batches, self._last_offsets, self._first = [], [], 0
        self.start_offset = end_offset

    def give_up_first(self) -> int:
        """Drop the oldest batch; return its size in bytes, 0 if there is none. Call it with the lock held."""
        if self._first == len(self.batches):
            return 0
        batch = self.batches[self._first]
        self.start_offset = batch.last_offset + 1
        self._first += 1
        if self._first * 2 > len(self.batches):
            del self.batches[: self._first], self._last_offsets[: self._first]
            self._first = 0
        return len(batch.data)


class HotTails:
    """The tails of a store, which share `max_bytes`: the least recently written log's batches are dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self.lock = Lock()
        self._max_bytes = max_bytes
        self._bytes = 0
        self._by_use: OrderedDict[HotTail, None] = OrderedDict()

    def count(self, tail: HotTail, size_bytes: int) -> None:
        """Account for the growth of `tail` by `size_bytes`, and drop batches above the limit. Call it with the lock
        held.
        """
        self._bytes += size_bytes
        self._by_use[tail] = None
        self._by_use.move_to_end(tail)
        while self._bytes > self._max_bytes and self._by_use:
            oldest = next(iter(self._by_use))
            given = oldest.give_up_first()
            self._bytes -= given
            if not given:
                del self._by_use[oldest]

    def remove(self, tail: HotTail) -> None:
        """Remove the tail of a closed log."""
        tail.forget(tail.start_offset)
        with self.lock:
            self._by_use.pop(tail, None)
