"""The interface of storage backends. One conformance suite (`storage_backends/testing`) tests every backend.

A `Store` keeps the logs of many partitions of one broker. Calls may wait for a disk, and the gateway makes them in
worker threads (`Environment.run_blocking`). These never wait, and may be called from the event loop:
`PartitionStore.key`, `commit_at_once`, `is_hot`, `read` of hot offsets, `configure`, `segments`, `ReadLease.release`.

Unless a method says otherwise, different partitions may be used from different threads at once; one partition has one
writer at a time (`load`, `commit`, `commit_at_once`, `truncate`, `replace`, `configure`, `close`) and any number of
concurrent readers. A reader sees whole commits only, and each commit as soon as `commit` has returned.

The interface is in terms of batches, offsets, epochs and producer state. Foreign exceptions (lmdb's, sqlalchemy's,
OSError) are mapped to `StoreError` at the backend's edge and never leave it.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from odradek.partitions.model import (
    AbortedTransaction,
    LogSnapshot,
    LogWrite,
    PartitionKey,
    ProducersAt,
    SegmentInfo,
    StoredBatch,
)
from odradek.wire.values import immutable

if TYPE_CHECKING:  # imported for type checking only, so that a broker starts faster
    from odradek.storage_backends.outbox import Outbox

__all__ = [
    "ANY_COMMIT_BYTES",
    "NO_ROWS",
    "DiskFullError",
    "LogPolicy",
    "OffsetNotInStoreError",
    "PartitionStore",
    "ProducerRebuilder",
    "ReadLease",
    "SegmentDraft",
    "SegmentInfo",
    "Store",
    "StoreCorruptError",
    "StoreError",
    "StoreExhaustedError",
    "StoreFormatError",
    "StoreFullError",
    "StoreLockedError",
    "StoreSpace",
    "StrayLog",
]


ANY_COMMIT_BYTES: Final = 1 << 62
"""The value of `PartitionStore.unsynced_commit_bytes` if larger commits never cost more per byte."""

NO_ROWS: Final[Mapping[int, bytes]] = {}
"""No producers' rows."""


class StoreError(Exception):
    """A call of the store failed; it has changed nothing unless the method's docstring says otherwise.

    After a failed write to a log, `PartitionStore.failed` is True if the log has to be closed and reopened.
    """


class StoreFullError(StoreError):
    """No space is left. The message contains where, and what to do."""


class DiskFullError(StoreFullError):
    """No space is left for any log: the file system, a quota or a limit of the process is used up."""


class StoreExhaustedError(StoreError):
    """The process has reached its limit of file descriptors or memory. The message contains what to do."""


class StoreLockedError(StoreError):
    """Another process has the store open."""


class StoreFormatError(StoreError):
    """The store's format version is not supported; the message names both versions."""


class StoreCorruptError(StoreError):
    """The data on disk differs from what was written."""


REPLACE_NODE: Final = "replace this node as docs/cluster.md describes (Replace a dead node)"
"""The advice for one of several nodes whose metadata log is damaged: a restored one contradicts those of the others."""


class OffsetNotInStoreError(StoreError):
    """The requested offset is below the log start or above the log end."""


@immutable
class LogPolicy:
    """The topic settings a store acts on (`segment.bytes`, `segment.ms`, whether `flush.messages` is 1,
    and `odradek.sql.columns`).

    `durable` announces that commits will have `sync` set, so that a backend can prepare for it. If it is False, commits
    without `sync` are left to the operating system's page cache if the backend supports that; then an operating-system
    crash may lose the newest part of the log. With `columns` a SQL database also stores the records as rows, written in
    the same transaction as the batches; other backends ignore it.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    durable: bool = True
    columns: bool = False


@immutable
class StoreSpace:
    """Where a store keeps its logs, and the total and free space of its medium; None: unknown."""

    location: str
    total_bytes: int | None = None
    usable_bytes: int | None = None


@immutable
class StrayLog:
    """A log that was set aside: its name, and the partition that it belongs to."""

    name: str
    key: PartitionKey


class Rest(Enum):
    """What a read has left of the offsets that it was given, for a reader that decides whether to wait for more."""

    NOTHING = "nothing"
    """Nothing: a repeated read lends more only if its end offset is higher."""
    CUT = "cut"
    """Batches that did not fit: a repeated read with the same limit lends no more."""
    NEWER_SEGMENT = "newer segment"
    """A segment begins above the start offset and at or below the end offset, so a read may end before its end."""


class ReadLease(Protocol):
    """Bytes lent by the store: whole batches in offset order, valid until `release`. `chunks` may be views of the
    store's own pages. Release it soon: pages are not reused while a lease is held.
    """

    @property
    def chunks(self) -> Sequence[memoryview]:
        """The batches; all chunks together are a sequence of whole record batches."""
        ...

    @property
    def size_bytes(self) -> int:
        """The length of all chunks together."""
        ...

    @property
    def rest(self) -> Rest:
        """What the read has left."""
        ...

    def release(self) -> None:
        """Return the views to the store; using them afterwards is an error. Idempotent, never raises."""
        ...


class SegmentDraft(Protocol):
    """An unfinished segment that is to replace a run of sealed ones (`PartitionStore.draft`). For one thread at a time,
    which may differ from the partition's writer. Readers do not see it, and a crash removes it.
    """

    def add(self, batches: Sequence[StoredBatch]) -> None:
        """Append batches, in offset order, with any gaps between them; the bytes are copied. Raises StoreError."""
        ...

    def seal(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Finish it and make it durable. `aborted` are the run's aborted transactions that readers still need. Raises
        StoreError; then only `discard` may be called.
        """
        ...

    def discard(self) -> None:
        """Remove it. Idempotent, also after `PartitionStore.replace`; never raises."""
        ...


class ProducerRebuilder(Protocol):
    """Rebuilds the producers' rows, and the aborted transactions, from batches: for a store that has lost them. It is
    made from the rows before the first of these batches.
    """

    def add(self, chunk: memoryview) -> None:
        """Add whole batches, in offset order. Raises InvalidRecordBatch."""
        ...

    def rows(self) -> Mapping[int, bytes]:
        """Return the rows of all producers after the batches."""
        ...

    def aborted(self) -> Sequence[AbortedTransaction]:
        """Return the transactions that the batches have aborted."""
        ...


class PartitionStore(Protocol):
    """The log of one partition."""

    @property
    def key(self) -> PartitionKey:
        """The partition this log belongs to."""
        ...

    @property
    def failed(self) -> bool:
        """True if a write has failed in such a way that the log has to be closed and reopened. Always True after a
        `commit` or `truncate` that had begun to write and raised an exception. Every call except `close` then raises
        StoreError; held leases stay valid. The contents of the medium when the log is reopened decide the outcome of
        the failed call: all of it, none of it, or a part if the method's docstring allows that. The reopened log is
        durable as a whole.
        """
        ...

    @property
    def unsynced_commit_bytes(self) -> int:
        """The size of batches, in bytes, from which a `commit` without `sync` should not be extended by further writes.
        A larger commit is allowed, but costs at least as much per byte. Never changes.
        """
        ...

    def load(self) -> LogSnapshot:
        """Return the log's state after the last commit. The cost is independent of the amount of data.

        Epochs are in order of their numbers, without those that ended at or below the log start; aborted transactions
        are in order of their last offsets, without those that ended below the log start. `max_timestamp_ms` is that of
        all segments still kept, so it may belong to a batch below the log start. Raises StoreCorruptError.
        """
        ...

    def commit(self, writes: Sequence[LogWrite], *, sync: bool) -> None:
        """Write all of `writes`, in order, in one transaction; on return they survive `kill -9`.

        With `sync` they also survive a power cut (and without it, in a store that always syncs). The batches' bytes are
        copied: the caller may reuse the buffers on return. Batches have to continue the log (else ValueError: a bug of
        ours, and nothing is written), without a gap unless the write is `replicated`; offsets in a gap belong to the
        log, and a segment that begins with such a write begins at the previous log end. A log start below the current
        one changes nothing; one above the log end, in a write without batches, first empties the log, including epochs
        and producers, and the log continues from there: for a follower whose leader has deleted all that the follower
        has. Whole segments below the log start are deleted.

        Rolls to a new segment before the first *write* that would break the policy, as Kafka does before a record
        set; then one call spans two transactions and segments, and the first is durable before the second is visible. A
        write is never split: one larger than `segment_bytes` is a segment by itself. Raises StoreFullError or
        StoreError; then the log is `failed`, and when reopened it has none of `writes`, all of them, or, if there was a
        roll between them, a prefix.
        """
        ...

    def commit_at_once(self, writes: Sequence[LogWrite]) -> bool:
        """As `commit` without `sync`, if that is possible without waiting for a disk; else change nothing and return
        False.

        Returns False if the log would roll, sync, or create, rename or remove a file; never in a backend without a
        disk. Raises what `commit` raises.
        """
        ...

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> ReadLease:
        """Lend whole batches from the one containing `start_offset` up to but not including `end_offset`.

        Stops before `max_bytes` are exceeded, except that a first batch larger than `max_bytes` is still lent; a store
        may also stop earlier, at the end of a segment or stored value, but never before the first batch. Empty only
        when `start_offset` is the log end, `start_offset >= end_offset`, or the first batch is not completely below
        `end_offset`. A batch whose last offset is >= `end_offset` is not lent, nor is one beyond the last commit. After
        compaction the first batch may begin above `start_offset`; the batch that contains the log start is lent whole.
        Raises OffsetNotInStoreError, StoreError.
        """
        ...

    def is_hot(self, start_offset: int) -> bool:
        """True if a read from `start_offset` only touches recently written pages, so that it may be done in the event
        loop.
        """
        ...

    def find_by_timestamp(self, timestamp_ms: int) -> int | None:
        """Return the base offset of the first batch, not below the log start, with a max timestamp >= `timestamp_ms`.
        None if there is none. Raises StoreError.
        """
        ...

    def find_max_timestamp(self) -> int | None:
        """Return the base offset of the first batch, not below the log start, that has the largest timestamp. None if
        the log is empty. Raises StoreError.
        """
        ...

    def producers_before(self, end_offset: int) -> ProducersAt:
        """Return all producers' rows as of the highest log end up to `end_offset` for which the store has them, and
        that log end.

        The caller rebuilds the rest from the batches after it, so if a store keeps the rows with each segment, earlier
        segments need not be read. If there are none: no rows, and the log start. For the writer only. Raises
        StoreError.
        """
        ...

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes] = NO_ROWS) -> LogSnapshot:
        """Durably drop every batch that ends at or above `end_offset`, and everything written with or after it.

        The cut is `end_offset` or the base offset of the first dropped batch, whichever is lower: the log then ends at
        the cut (or where it ended), and epochs that start at or above the cut and aborted ranges that end there are
        dropped, even if no batch is. A log start above the cut is set to the cut; with `end_offset` below the log start
        the log is emptied and continues at `end_offset`. A producer's row is dropped if the write that last set it left
        the log end above the cut; in the same transaction it is replaced by that producer's row in `rebuilt`, if any,
        which the caller makes from the remaining batches. A row in `rebuilt` of a producer without one is added; other
        rows stay. Held leases stay valid.
        Raises StoreError; then the log is `failed`, and when reopened it is either unchanged or truncated.
        """
        ...

    def draft(self, base_offset: int, end_offset: int) -> SegmentDraft:
        """Begin a replacement for the sealed segments from `base_offset` to `end_offset`.

        Both have to be segment boundaries. May be called concurrently with the writer; one draft at a time. Raises
        ValueError for other offsets, StoreFullError, StoreError.
        """
        ...

    def replace(self, draft: SegmentDraft) -> bool:
        """Durably replace a draft's run of segments by the sealed draft: a crash leaves either the old ones or the new
        one. Of the aborted transactions that end in the run only those given to `seal` are kept. Held leases stay
        valid. For the writer only. Returns False, and changes nothing, if some of the segments have been changed or
        removed since. Raises StoreError; then nothing has changed, unless the log is `failed`: when reopened it has the
        old ones or the new one.
        """
        ...

    def configure(self, policy: LogPolicy) -> None:
        """Set the policy from the next commit on. If `durable` changes, that commit or a later one may start a new
        segment.
        """
        ...

    def segments(self) -> Sequence[SegmentInfo]:
        """Return all segments in offset order; the last is the active one."""
        ...

    def size_bytes(self) -> int:
        """The size of the log on its medium."""
        ...

    def close(self) -> None:
        """Close the log; everything committed is durable on return. Idempotent. Outstanding leases have to be released
        first. Raises StoreError when the last sync fails; the log is closed then, too.
        """
        ...


class Store(Protocol):
    """All logs of one broker, and a few named values beside them (cluster id, node id, format version)."""

    def partitions(self) -> Sequence[PartitionKey]:
        """Return all partitions that have a log in the store, sorted. Raises StoreError."""
        ...

    def holds(self, key: PartitionKey) -> bool:
        """True if the store has a log of the partition, damaged or not. Raises StoreError."""
        ...

    def open(self, key: PartitionKey, policy: LogPolicy) -> PartitionStore:
        """Open the partition's log, creating an empty one if there is none. At most one open handle per key.

        An existing log is opened, loaded and read also when no space is left. Raises StoreError (also when it is open
        already, and while leases of an earlier opening are held), StoreFullError, StoreCorruptError, StoreFormatError.
        """
        ...

    def delete(self, key: PartitionKey) -> None:
        """Remove the partition's log; the handle has to be closed. Atomic with regard to crashes. No error if there is
        no log. Raises StoreError, also while a handle is open.
        """
        ...

    def set_aside(self, key: PartitionKey) -> str:
        """Set the partition's log aside, damaged or not: it is kept, but no longer in `partitions`. Returns its new
        name. The handle has to be closed. Raises StoreError, also if there is no such log.
        """
        ...

    def strays(self) -> Sequence[StrayLog]:
        """Return all logs that were set aside, by key; a partition may have several. Raises StoreError."""
        ...

    def take_back(self, name: str) -> None:
        """Make the stray log of that name its partition's log again. Raises StoreError, also if the partition has a
        log.
        """
        ...

    def delete_stray(self, name: str) -> None:
        """Remove the stray log of that name permanently. No error if there is none. Raises StoreError."""
        ...

    def space(self) -> StoreSpace:
        """Return where the logs are, and the space of the medium. Raises StoreError."""
        ...

    def properties(self) -> Mapping[str, str]:
        """Return the named values. Raises StoreError."""
        ...

    def set_properties(self, values: Mapping[str, str]) -> None:
        """Durably add or replace named values, all at once. Raises StoreFullError, StoreError."""
        ...

    def outbox(self) -> "Outbox | None":
        """The store's outbox, always the same object; None if the backend has none."""
        ...

    def close_idle(self) -> int:
        """Release the resources (files, memory) of open logs that were not used since the last call; return how many.
        The logs' handles stay open; the only effect is that the next use of such a log takes longer.
        """
        ...

    def close(self) -> None:
        """Close every open partition and release the store's lock. Idempotent. Raises StoreError when the last sync of
        a log fails; everything is closed then, too.
        """
        ...
