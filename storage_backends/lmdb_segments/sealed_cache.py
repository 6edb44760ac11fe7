"""How many sealed segments a store keeps open: the most recently read ones, up to a limit."""

from threading import Lock

from storage_backends.lmdb_segments.segment import Segment


class SealedCache:
    """Closes the least recently used sealed segments beyond `limit`; those in use stay open. For any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._segments: dict[Segment, None] = {}  # in order of use

    def touch(self, segment: Segment) -> None:
        """Note that `segment` is open and was used just now."""
        with self._lock:
            self._segments.pop(segment, None)
            self._segments[segment] = None
            if len(self._segments) > self._limit:
                self._evict()

    def forget(self, segment: Segment) -> None:
        """Leave the segment to its owner."""
        with self._lock:
            self._segments.pop(segment, None)

    def _evict(self) -> None:
        excess = len(self._segments) - self._limit
        for segment in list(self._segments)[:excess]:
            if segment.close_if_idle():
                del self._segments[segment]
