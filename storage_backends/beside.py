"""What a store shows of its logs to another process than the broker that writes them. Views neither lock nor write."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from odradek.partitions.model import AbortedTransaction, PartitionKey
from odradek.storage_backends.interface import StoreError

__all__ = ["Backfill", "LogBeside", "LogGoneError", "LogsBeside", "SegmentGoneError"]


class SegmentGoneError(StoreError):
    """A sealed segment was removed or replaced since the view was taken."""


class LogGoneError(StoreError):
    """There is no such partition: its topic was deleted, or the directory was moved."""


class LogBeside(Protocol):
    """A log at one moment: whole transactions of its writer. Close it after use.

    `aborted` are the aborted transactions that end at or above the log start. `producers` are the producers' states as
    stored (`odradek.partitions.producers` reads them).
    """

    log_start_offset: int
    log_end_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, bytes]

    def values(self, start_offset: int, end_offset: int, since_ms: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Walk the stored values that hold offsets of the range, in order, each with its last offset.

        A value is one or more whole batches, of which the first and the last may reach beyond the range. With
        `since_ms` values may be left out whose timestamps are all below. Compaction and retention since the view was
        taken may show, as values that are shorter or not there.

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
        """Every partition that has a log; those never written to may have none. Raises StoreError."""
        ...

    def look(self, key: PartitionKey) -> LogBeside:
        """Look at a log as it is now. Raises LogGoneError, StoreCorruptError, StoreError."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class Backfill(Protocol):
    """Adds rows for records older than the topic's setting `odradek.sql.columns`, while the broker may be running."""

    def begin(self, topic: str) -> None:
        """Make the topic's view, if there is none. Raises StoreError."""
        ...

    def fill(self, key: PartitionKey, stable_offset: int, aborted: Sequence[AbortedTransaction]) -> int | None:
        """Fill in a part of a log, the newest records first; return their number, None if nothing is left to do.

        Below `stable_offset` all transactions are decided, and `aborted` are those that were aborted.
        Raises LogGoneError, StoreError.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
