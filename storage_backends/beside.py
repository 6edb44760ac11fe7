"""Read access to a store's logs for processes other than the broker that writes them. Views neither lock nor write."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from odradek.partitions.model import AbortedTransaction, PartitionKey
from odradek.storage_backends.interface import StoreError

__all__ = ["Backfill", "LogBeside", "LogGoneError", "LogsBeside", "SegmentGoneError"]


class SegmentGoneError(StoreError):
    """A sealed segment was removed or replaced after the view was opened."""


class LogGoneError(StoreError):
    """The partition does not exist: its topic was deleted, or the directory was moved."""


class LogBeside(Protocol):
    """A log at one point in time: complete transactions of its writer. Close it after use.

    `aborted` are the aborted transactions that end at or above the log start. `producers` are the producers' states as
    stored (`odradek.partitions.producers` reads them).
    """

    log_start_offset: int
    log_end_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, bytes]

    def values(self, start_offset: int, end_offset: int, since_ms: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the stored values with offsets in the range, in order, each with its last offset.

        A value is one or more whole batches; the first and the last may extend beyond the range. With `since_ms`,
        values whose timestamps are all lower may be omitted. Later compaction and retention may take effect: values may
        be shorter or missing.

        Raises SegmentGoneError, StoreCorruptError, StoreError.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LogsBeside(Protocol):
    """The logs of one store."""

    def keys(self) -> Sequence[PartitionKey]:
        """Return all partitions that have a log; those never written to may have none. Raises StoreError."""
        ...

    def look(self, key: PartitionKey) -> LogBeside:
        """Open a view of the log in its current state. Raises LogGoneError, StoreCorruptError, StoreError."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class Backfill(Protocol):
    """Adds the rows of records that are older than the topic's setting `odradek.sql.columns`. The broker may be
    running.
    """

    def begin(self, topic: str) -> None:
        """Create the topic's database view, if it does not exist. Raises StoreError."""
        ...

    def fill(self, key: PartitionKey, stable_offset: int, aborted: Sequence[AbortedTransaction]) -> int | None:
        """Add the rows of a part of a log, the newest records first; return their number, None if nothing is left to
        do. All transactions below `stable_offset` have ended; `aborted` are the aborted ones. Raises LogGoneError,
        StoreError.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
