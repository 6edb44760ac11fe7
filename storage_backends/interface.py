"""What a storage backend promises. One conformance suite (`storage_backends/testing`) holds every backend to it.

A `Store` keeps the logs of many partitions of one broker. Calls may wait for a disk, and the gateway makes them in
worker threads (`Environment.run_blocking`). These never wait, and may be called from the event loop:
`PartitionStore.key`, `commit_at_once`, `is_hot`, `read` of what is hot, `configure`, `segments`, `ReadLease.release`.

Unless a method says otherwise, different partitions may be used from different threads at once; one partition has one
writer at a time (`load`, `commit`, `commit_at_once`, `truncate`, `replace`, `configure`, `close`) and any number of
readers beside it, each of which sees whole commits only, and each commit as soon as `commit` returns.

The interface speaks of batches, offsets, epochs and producer state. Foreign exceptions (lmdb's, sqlalchemy's, OSError)
are mapped to `StoreError` at the backend's edge and never leave it.
"""

from collections.abc import Mapping, Sequence
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

if TYPE_CHECKING:  # not imported for its type alone: a broker starts faster
    from odradek.storage_backends.outbox import Outbox

__all__ = [
    "ANY_COMMIT_BYTES",
    "NO_ROWS",
    "DiskFullError",
    "LogPolicy",
    "OffsetNotInStoreError",
    "PartitionStore",
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
"""What `PartitionStore.unsynced_commit_bytes` is where a larger commit is always cheaper a byte, or no matter."""

NO_ROWS: Final[Mapping[int, bytes]] = {}
"""No producer's row."""


class StoreError(Exception):
    """The store could not do what was asked; nothing of the failed call is kept unless the method says otherwise.

    After a failed write to a log, `PartitionStore.failed` says whether the log has to be closed and opened again.
    """


class StoreFullError(StoreError):
    """No space is left. The message says on what and what to do."""


class DiskFullError(StoreFullError):
    """No space is left for any log: the file system, a quota or a limit of the process is used up."""


class StoreExhaustedError(StoreError):
    """The process has reached its limit of file descriptors or memory. The message says what to do."""


class StoreLockedError(StoreError):
    """Another process has the store open."""


class StoreFormatError(StoreError):
    """The store was written in a format that this version does not know; the message names both versions."""


class StoreCorruptError(StoreError):
    """What is on disk is not what was written."""


class OffsetNotInStoreError(StoreError):
    """The offset asked for lies below the log start or above the log end."""


@immutable
class LogPolicy:
    """The topic settings a store acts on (`segment.bytes`, `segment.ms`, whether `flush.messages` is 1,
    and `odradek.sql.columns`).

    `durable` says that commits will ask for `sync`, so that a backend may arrange for it. Where it is False, commits
    without `sync` are left to the operating system's page cache if the backend can do that, and after an
    operating-system crash the newest part of the log may be missing. With `columns` a SQL database keeps the records as
    rows beside the batches, written in the same transaction; other backends do nothing about it.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    durable: bool = True
    columns: bool = False


@immutable
class StoreSpace:
    """Where a store keeps its logs, and how much room its medium has, and has left; None: unknown."""

    location: str
    total_bytes: int | None = None
    usable_bytes: int | None = None


@immutable
class StrayLog:
    """A log that was set aside: under which name, and whose it is."""

    name: str
    key: PartitionKey


class ReadLease(Protocol):
    """Bytes lent out of the store: whole batches in offset order, valid until `release`.

    `chunks` may be views of the store's own pages. Release soon: a held lease keeps old pages from being reused.
    """

    @property
    def chunks(self) -> Sequence[memoryview]:
        """The batches; the concatenation of all chunks is a sequence of whole record batches."""
        ...

    @property
    def size_bytes(self) -> int:
        """The length of all chunks together."""
        ...

    def release(self) -> None:
        """Give the views back; using them afterwards is an error. Idempotent, never raises."""
        ...


class SegmentDraft(Protocol):
    """A segment in the making that is to take the place of a run of sealed ones (`PartitionStore.draft`).

    For one thread at a time, beside the partition's writer. Readers do not see it, and a crash leaves nothing of it.
    """

    def add(self, batches: Sequence[StoredBatch]) -> None:
        """Append batches, in offset order, with any gaps between them; the bytes are copied. Raises StoreError."""
        ...

    def seal(self, aborted: Sequence[AbortedTransaction]) -> None:
        """End it and make it durable. `aborted` are the run's aborted transactions that readers still have to know.

        Raises StoreError; then only `discard` is left.
        """
        ...

    def discard(self) -> None:
        """Drop it. Idempotent, also after `PartitionStore.replace`; never raises."""
        ...


class PartitionStore(Protocol):
    """The log of one partition."""

    @property
    def key(self) -> PartitionKey:
        """The partition this log belongs to."""
        ...

    @property
    def failed(self) -> bool:
        """Whether a write has failed in such a way that the log must be closed and opened again.

        Always so after a `commit` or `truncate` that had begun to write and raised an exception. Every call but
        `close` then raises StoreError; held leases stay valid. The contents of the medium when the log is reopened
        decide the outcome of the failed call: all of it, nothing, or a part if the method's docstring allows that. The
        reopened log is durable as a whole.
        """
        ...

    @property
    def unsynced_commit_bytes(self) -> int:
        """From how many bytes of batches on a `commit` without `sync` should get no further writes.

        A larger one is allowed, and costs at least as much a byte. Never changes.
        """
        ...

    def load(self) -> LogSnapshot:
        """What the last commit left: cost independent of the amount of data.

        Epochs come in the order of their numbers, without those that ended at or below the log start; aborted
        transactions in the order of their last offsets, without those that ended below the log start.
        `max_timestamp_ms` is that of all segments still kept, so it may belong to a batch below the log start.
        Raises StoreCorruptError.
        """
        ...

    def commit(self, writes: Sequence[LogWrite], *, sync: bool) -> None:
        """Write all of `writes`, in order, in one transaction; on return they survive `kill -9`.

        With `sync` they also survive a power cut (and without, if the store knows no difference). The batches' bytes
        are copied: the caller may reuse the buffers on return. Batches must continue the log (ValueError: our bug, and
        nothing is written), without a gap unless the write is `replicated`; offsets in a gap belong to the log, and a
        segment that begins with such a write begins where the log ended. A log start below the present one changes
        nothing; one above the log end, in a write without batches, first empties the log (epochs, producers and all),
        which goes on from there: what a follower does whose leader has deleted further. Whole segments below the log
        start are deleted.

        Rolls to a new segment before the first *write* that would break the policy, as Kafka does before a record
        set; then one call spans two transactions and segments, and the first is durable before the second is visible.
        A write is never split: it may be larger than `segment_bytes`, and is then a segment by itself.
        Raises StoreFullError or StoreError; then the log is `failed`, and opened again it has nothing of `writes`, all
        of them, or where a roll came between them a prefix.
        """
        ...

    def commit_at_once(self, writes: Sequence[LogWrite]) -> bool:
        """Do what `commit` does without `sync`, if that waits for no disk; else change nothing and return False.

        False if the log would roll, sync, or make, rename or remove a file; a backend without a disk never returns it.
        Raises what `commit` raises.
        """
        ...

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> ReadLease:
        """Lend whole batches from the one containing `start_offset` up to but not including `end_offset`.

        Stops before `max_bytes` are exceeded, except that a first batch larger than `max_bytes` is still lent; a
        store may also stop earlier, at a border of its own (a segment, a stored value), but never before the first
        batch. Empty only when `start_offset` is the log end, `start_offset >= end_offset`, or the first batch is not
        wholly below `end_offset`. A batch whose last offset is >= `end_offset` is not lent, nor is one beyond the
        last commit. After compaction the first batch may begin above `start_offset`; the batch that contains the log
        start is lent whole. Raises OffsetNotInStoreError, StoreError.
        """
        ...

    def is_hot(self, start_offset: int) -> bool:
        """Whether a read from `start_offset` hits the active segment's recent pages: cheap enough to do inline."""
        ...

    def find_by_timestamp(self, timestamp_ms: int) -> int | None:
        """The base offset of the first batch, not below the log start, whose max timestamp is >= `timestamp_ms`.

        None when there is none. Raises StoreError.
        """
        ...

    def find_max_timestamp(self) -> int | None:
        """The base offset of the first batch, not below the log start, that carries the largest timestamp there.

        None when the log is empty. Raises StoreError.
        """
        ...

    def producers_before(self, end_offset: int) -> ProducersAt:
        """All producers' rows of the newest log end up to `end_offset` for which the store has them, and that log end.

        The caller rebuilds the rest from the batches from there on, so a store that keeps the rows with each segment
        saves it the reading of the segments before. Without any: no rows, and the log start. A writer's call. Raises
        StoreError.
        """
        ...

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes] = NO_ROWS) -> LogSnapshot:
        """Durably drop every batch that ends at or above `end_offset`, and what was written with or after it.

        The cut is `end_offset` or the base offset of the first dropped batch, whichever is lower: the log then ends
        at the cut (or where it ended), epochs that start at or above the cut and aborted ranges that end there go,
        even when no batch does. A log start above the cut comes down to it; below the log start nothing is left, and
        the log goes on, empty, at `end_offset`. A producer's row goes when the write that last set it left the log end
        above the cut, and what `rebuilt` has for that producer takes its place in the same transaction: the caller
        makes it from the batches that stay. The other rows are as they were then, whatever `rebuilt` says. Held leases
        stay valid. Raises StoreError; then the log is `failed`, and opened again it is as it was or truncated.
        """
        ...

    def draft(self, base_offset: int, end_offset: int) -> SegmentDraft:
        """Begin a replacement for the sealed segments from `base_offset` to `end_offset`.

        Both are borders of segments. May run beside the writer; one draft at a time. Raises ValueError for other
        offsets, StoreFullError, StoreError.
        """
        ...

    def replace(self, draft: SegmentDraft) -> bool:
        """Put a sealed draft in the place of its run of segments, durably: a crash leaves the old ones or the new one.

        Of the aborted transactions that end in the run only those given to `seal` stay. Held leases stay valid. A
        writer's call. Returns False, and changes nothing, when the segments are not all there any more as they were.
        Raises StoreError; then nothing has changed, unless the log is `failed`: opened again it has the old ones or
        the new one.
        """
        ...

    def configure(self, policy: LogPolicy) -> None:
        """Use another policy from the next commit on. A change of `durable` may start a new segment then."""
        ...

    def segments(self) -> Sequence[SegmentInfo]:
        """All segments in offset order; the last is the active one."""
        ...

    def size_bytes(self) -> int:
        """The space that the log takes on its medium."""
        ...

    def close(self) -> None:
        """Release what is held open; everything committed is durable on return. Idempotent.

        Outstanding leases must be released first. Raises StoreError when the last sync fails; it is closed then, too.
        """
        ...


class Store(Protocol):
    """All logs of one broker, and a few named values beside them (cluster id, node id, format version)."""

    def partitions(self) -> Sequence[PartitionKey]:
        """Every partition the store holds, sorted."""
        ...

    def holds(self, key: PartitionKey) -> bool:
        """Whether the store holds a log of the partition, whole or damaged. Raises StoreError."""
        ...

    def open(self, key: PartitionKey, policy: LogPolicy) -> PartitionStore:
        """Open the partition's log, creating an empty one when there is none. At most one open handle per key.

        An existing log is opened, loaded and read also when no space is left. Raises StoreError (also when it is open
        already, and while leases of an earlier opening are held), StoreFullError, StoreCorruptError, StoreFormatError.
        """
        ...

    def delete(self, key: PartitionKey) -> None:
        """Remove the partition's log; the handle must be closed. A crash in between leaves it whole or gone.

        No error when there is none. Raises StoreError, also while a handle is open.
        """
        ...

    def set_aside(self, key: PartitionKey) -> str:
        """Keep the partition's log, whole or damaged, but out of `partitions`; return the name it has from now on.

        The handle must be closed. Raises StoreError, also when there is no such log.
        """
        ...

    def strays(self) -> Sequence[StrayLog]:
        """Every log that was set aside, by key; several may be the same partition's. Raises StoreError."""
        ...

    def take_back(self, name: str) -> None:
        """Make the stray log of that name its partition's log again. Raises StoreError, also where there is one."""
        ...

    def delete_stray(self, name: str) -> None:
        """Remove the stray log of that name for good. No error when there is none. Raises StoreError."""
        ...

    def space(self) -> StoreSpace:
        """Where the logs are, and the room there is. Raises StoreError."""
        ...

    def properties(self) -> Mapping[str, str]:
        """The named values."""
        ...

    def set_properties(self, values: Mapping[str, str]) -> None:
        """Durably add or replace named values, all at once. Raises StoreFullError, StoreError."""
        ...

    def outbox(self) -> "Outbox | None":
        """The store's outbox, always the same object; None if the backend has none."""
        ...

    def close_idle(self) -> int:
        """Give back what open logs hold (files, memory) that were not used since the last call; return how many.

        No caller sees it, except for the time until a log is ready at its next use. Logs stay open as handles.
        """
        ...

    def close(self) -> None:
        """Close every open partition and release the store's lock. Idempotent."""
        ...
