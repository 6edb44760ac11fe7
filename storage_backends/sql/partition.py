"""The log of one partition in a database."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from odradek.partitions.model import LogSnapshot, LogWrite, PartitionKey, ProducersAt
from odradek.storage_backends.interface import (
    ANY_COMMIT_BYTES,
    NO_ROWS,
    LogPolicy,
    OffsetNotInStoreError,
    Rest,
    SegmentDraft,
    SegmentInfo,
    StoreError,
)
from odradek.storage_backends.planning import checked_run, sealed_run
from odradek.storage_backends.sql import queries, schema, statements
from odradek.storage_backends.sql.columns import statements as columns
from odradek.storage_backends.sql.columns.decoding import rows_of
from odradek.storage_backends.sql.draft import SqlDraft
from odradek.storage_backends.sql.hot import HotTail
from odradek.storage_backends.sql.state import Change, LogState, SegmentState

if TYPE_CHECKING:
    from odradek.storage_backends.sql.store import SqlStore

__all__ = ["SqlPartition"]


class SqlLease:
    """Batches as ordinary objects; `release` only drops the references."""

    __slots__ = ("chunks", "rest", "size_bytes")

    def __init__(self, chunks: Sequence[memoryview] = (), rest: Rest = Rest.NOTHING) -> None:
        self.chunks = chunks
        self.rest = rest
        self.size_bytes = sum([len(chunk) for chunk in chunks])

    def release(self) -> None:
        """See `ReadLease.release`."""
        self.chunks = ()


class SqlPartition:
    """A `PartitionStore`: the state is in memory, the batches are in the database, and the newest batches are in
    both.
    """

    def __init__(
        self, store: "SqlStore", key: PartitionKey, log: int, state: LogState, policy: LogPolicy, *, had_columns: bool
    ) -> None:
        self._store = store
        self._key = key
        self.log = log
        self._state = state
        self._policy = policy
        self._lock = Lock()  # guards the state; never held during a query
        self._tail = HotTail(store.tails, state.log_end_offset)
        self._failed = False
        self._closed = False
        # Whether the last commit wrote rows of records; None if unknown: before the first commit after the log was
        # opened or the setting changed.
        self._has_columns: bool | None = None if had_columns or policy.columns else False

    @property
    def key(self) -> PartitionKey:
        """See `PartitionStore.key`."""
        return self._key

    @property
    def failed(self) -> bool:
        """See `PartitionStore.failed`."""
        return self._failed

    @property
    def unsynced_commit_bytes(self) -> int:
        """See `PartitionStore.unsynced_commit_bytes`: every commit is durable."""
        return ANY_COMMIT_BYTES

    def load(self) -> LogSnapshot:
        """See `PartitionStore.load`."""
        with self._using() as state:
            return state.snapshot()

    def commit(self, writes: Sequence[LogWrite], *, sync: bool) -> None:
        """See `PartitionStore.commit`: every commit is durable."""
        del sync
        with self._using() as state:
            change = state.change(writes, self._policy)
        start_offset = change.segments[0].base_offset if change.restarts else state.log_end_offset
        with self._writing():
            self._write(change, start_offset)
        self._tail.append(change.batches, start_offset, restarts=change.restarts)
        with self._lock:
            state.apply(change)
        if change.dropped_segments:
            self._store.purge_soon(self)

    def _write(self, change: Change, start_offset: int) -> None:
        size_bytes = sum([len(batch.data) for batch in change.batches])
        rows = rows_of(change.batches) if self._policy.columns else None
        if rows is None and self._has_columns is False:
            self._store.group.run(lambda connection: statements.write_change(connection, self.log, change), size_bytes)
            return
        if rows is not None and self._has_columns is not True:
            self._store.show(self._key.topic)

        def write(connection: Connection) -> None:
            if change.restarts:
                columns.lock(connection, self.log)
                columns.truncate(connection, self.log, 0)
            statements.write_change(connection, self.log, change)
            if rows is None:
                columns.end(connection, self.log)
                return
            columns.begin(connection, self.log, start_offset)
            columns.insert(connection, self.log, rows)

        self._store.group.run(write, size_bytes + (0 if rows is None else rows.size_bytes))
        if rows is None:
            self._store.purge_soon(self)
        self._has_columns = rows is not None

    def commit_at_once(self, writes: Sequence[LogWrite]) -> bool:
        """See `PartitionStore.commit_at_once`: always False, since a database has to wait."""
        with self._using() as state:
            state.change(writes, self._policy)  # raises ValueError for a gap, as `commit` does
        return False

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> SqlLease:
        """See `PartitionStore.read`."""
        with self._using() as state:
            _check_within(state, start_offset)
            end_offset = min(end_offset, state.log_end_offset)
            borders = state.borders_after(start_offset)
        # As in Kafka a read ends with its segment, unless the segment has nothing left to read.
        for border in borders if start_offset < end_offset else ():
            chunks, rest = self._read(start_offset, min(border, end_offset), max_bytes)
            if chunks or border >= end_offset:
                with self._using() as state:
                    _check_within(state, start_offset)  # retention may have deleted rows before they were read
                return SqlLease(chunks, Rest.NEWER_SEGMENT if borders[0] <= end_offset and len(borders) > 1 else rest)
        return SqlLease()

    def _read(self, start_offset: int, end_offset: int, max_bytes: int) -> tuple[Sequence[memoryview], Rest]:
        found = self._tail.read(start_offset, end_offset, max_bytes)
        if found is None:
            with self._store.database.reading(f"reading {self._key}") as connection:
                found = queries.read(connection, self.log, start_offset, end_offset, max_bytes)
        return found

    def is_hot(self, start_offset: int) -> bool:
        """See `PartitionStore.is_hot`: True if the batches are in memory."""
        return start_offset >= self._tail.start_offset

    def find_by_timestamp(self, timestamp_ms: int) -> int | None:
        """See `PartitionStore.find_by_timestamp`."""
        with self._using() as state:
            start, infos = state.log_start_offset, state.infos()
        candidates = [info for info in infos if info.max_timestamp_ms >= timestamp_ms and info.size_bytes]
        with self._store.database.reading(f"searching {self._key}") as connection:
            for info in candidates:
                first = max(start, info.base_offset)
                found = queries.find_at(connection, self.log, first, info.end_offset, timestamp_ms)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self) -> int | None:
        """See `PartitionStore.find_max_timestamp`."""
        with self._using() as state:
            start, end = state.log_start_offset, state.log_end_offset
        with self._store.database.reading(f"searching {self._key}") as connection:
            largest = queries.max_time(connection, self.log, start, end)
            return None if largest is None else queries.find_at(connection, self.log, start, end, largest)

    def producers_before(self, end_offset: int) -> ProducersAt:
        """See `PartitionStore.producers_before`: always no rows, since they are only kept as of the log end."""
        del end_offset
        with self._using() as state:
            return ProducersAt(state.log_start_offset, NO_ROWS)

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes] = NO_ROWS) -> LogSnapshot:
        """See `PartitionStore.truncate`."""
        with self._using() as state:
            segments = state.survivors(end_offset)
        with self._writing():
            after, keep_below = self._truncated(state, segments, end_offset, rebuilt)
            self._store.group.run(
                lambda connection: statements.write_truncation(connection, self.log, keep_below, after)
            )
        with self._lock:
            self._state = after
        self._tail.forget(after.log_end_offset)
        return after.snapshot()

    def _truncated(
        self, state: LogState, segments: list[SegmentState], end_offset: int, rebuilt: Mapping[int, bytes]
    ) -> tuple[LogState, int]:
        """Return the state after a truncation, and the offset below which batches are kept."""
        if not segments:
            return state.truncated(end_offset, [SegmentState(end_offset)], rebuilt), 0
        with self._store.database.reading(f"truncating {self._key}") as connection:
            first_cut = queries.first_ending_at(connection, self.log, end_offset)
            cut = end_offset if first_cut is None else min(end_offset, first_cut)
            last = queries.summed(connection, self.log, segments[-1].base_offset, cut)
        return state.truncated(cut, [*segments[:-1], last], rebuilt), cut

    def draft(self, base_offset: int, end_offset: int) -> SqlDraft:
        """See `PartitionStore.draft`."""
        with self._using() as state:
            sources = checked_run(state.infos(), base_offset, end_offset)
        log = self._store.make_log(self._key, schema.DRAFT)
        segment = SegmentState(base_offset)
        return SqlDraft(self._store, log, base_offset, end_offset, sources, segment, self._policy.columns)

    def replace(self, draft: SegmentDraft) -> bool:
        """See `PartitionStore.replace`."""
        assert isinstance(draft, SqlDraft), "a draft of another store"
        with self._using() as state:
            if sealed_run(state.infos(), draft.base_offset, draft.end_offset) != draft.sources:
                return False
        aborted = [*state.aborted, *draft.aborted]

        def write(connection: Connection) -> None:
            columns.lock(connection, self.log)
            columns.put_in_place(
                connection,
                self.log,
                draft.log,
                draft.base_offset,
                draft.end_offset,
                aborted if draft.has_rows else None,
            )
            statements.write_replacement(
                connection, self.log, draft.log, draft.segment, draft.end_offset, draft.aborted
            )

        with self._writing():
            self._store.group.run(write)
        draft.placed = True
        with self._lock:
            state.replaced(draft.segment, draft.end_offset, draft.aborted)
            end_offset = state.log_end_offset
        self._tail.forget(end_offset)
        return True

    def configure(self, policy: LogPolicy) -> None:
        """See `PartitionStore.configure`."""
        if policy.columns != self._policy.columns:
            self._has_columns = None
        self._policy = policy

    def segments(self) -> Sequence[SegmentInfo]:
        """See `PartitionStore.segments`."""
        with self._using() as state:
            return state.infos()

    def size_bytes(self) -> int:
        """See `PartitionStore.size_bytes`: that of the batches."""
        return sum(info.size_bytes for info in self.segments())

    def first_offset(self) -> int | None:
        """Return the offset below which batches may be deleted; None once the log is closed or has failed."""
        with self._lock:
            return None if self._closed or self._failed else self._state.segments[0].base_offset

    def close(self) -> None:
        """See `PartitionStore.close`: everything committed is durable."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._store.tails.remove(self._tail)
        self._store.forget(self._key)

    @contextmanager
    def _using(self) -> Generator[LogState]:
        """A context with the state, in which the lock is held."""
        with self._lock:
            if self._closed:
                raise StoreError(f"the log of {self._key} is closed")
            if self._failed:
                raise StoreError(f"the log of {self._key} has to be opened again after a failed write")
            yield self._state

    @contextmanager
    def _writing(self) -> Generator[None]:
        """A context in which any exception leaves the log failed."""
        try:
            yield
        except BaseException:
            self._failed = True
            raise


def _check_within(state: LogState, offset: int) -> None:
    if not state.log_start_offset <= offset <= state.log_end_offset:
        raise OffsetNotInStoreError(f"offset {offset} is not within {state.log_start_offset} to {state.log_end_offset}")
