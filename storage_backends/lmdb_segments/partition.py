"""One partition's log in LMDB segments: the methods of the interface, which map foreign errors to StoreError.

The writer changes segments (`segment_log`); readers take its `state`, one immutable value that is replaced after every
commit, and pin the segment they need. So readers and the writer do not block each other.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from odradek.partitions.model import LogSnapshot, LogWrite, PartitionKey, ProducersAt
from odradek.storage_backends.interface import (
    NO_ROWS,
    LogPolicy,
    OffsetNotInStoreError,
    SegmentDraft,
    SegmentInfo,
    StoreCorruptError,
    StoreError,
)
from odradek.storage_backends.lmdb_segments.advice import METADATA_TOPIC
from odradek.storage_backends.lmdb_segments.cleaning import LmdbDraft
from odradek.storage_backends.lmdb_segments.context import StoreContext
from odradek.storage_backends.lmdb_segments.errors import ForeignError, mapped, mapped_commit, mapping_errors
from odradek.storage_backends.lmdb_segments.hot import HotTail
from odradek.storage_backends.lmdb_segments.layout import SegmentMeta
from odradek.storage_backends.lmdb_segments.reads import (
    CopyLease,
    PageLease,
    ReadTxn,
    first_batch_at,
    lend,
    max_timestamp_from,
)
from odradek.storage_backends.lmdb_segments.recovery import OpenedLog, read_segment
from odradek.storage_backends.lmdb_segments.reserve import PART_BYTES, RESERVE_BYTES
from odradek.storage_backends.lmdb_segments.segment import LogDb, Segment
from odradek.storage_backends.lmdb_segments.segment_log import LogState, SegmentLog
from odradek.storage_backends.lmdb_segments.tables import read_producers, snapshot
from odradek.storage_backends.planning import NO_TIMESTAMP, Run, SegmentFill, plan_runs

T = TypeVar("T")

_UNSYNCED_COMMIT_BYTES: Final = 1_000_000
"""LMDB writes a commit's batches in one system call. For 2 MB and more Linux tries to allocate memory in blocks of 2
MB, which the host of a virtual machine may have to provide first: such calls took up to ten times as long.
"""

_LEAST_SYNCED_BYTES: Final = 64 * 1024
"""The size of batches up to which a segment is continued with syncs although they are not required. A segment without
batches takes 12 KB on disk; 64 KB are 650 commits of 100 bytes.
"""


class SegmentGoneError(Exception):
    """The segment of a read was replaced or deleted before the read could use it."""


_OnClose = Callable[[PartitionKey, SegmentMeta | None], None]
"""Called with the partition and, for a failed log, the meta row after its last successful commit."""


class LmdbPartition:
    """A `PartitionStore` over an open log."""

    def __init__(
        self,
        key: PartitionKey,
        directory: Path,
        policy: LogPolicy,
        context: StoreContext,
        opened: OpenedLog,
        on_close: _OnClose,
    ) -> None:
        self._key = key
        self._directory = directory
        self._context = context
        self._on_close = on_close
        self.log = SegmentLog(directory, policy, context, opened)
        self._hot = HotTail(context.options.hot_bytes, self.log.state.meta.log_end_offset)
        self._failure = ""
        self._closed = False

    @property
    def key(self) -> PartitionKey:
        """See `PartitionStore.key`."""
        return self._key

    @property
    def failed(self) -> bool:
        """See `PartitionStore.failed`."""
        return bool(self._failure)

    @property
    def unsynced_commit_bytes(self) -> int:
        """See `PartitionStore.unsynced_commit_bytes`."""
        return _UNSYNCED_COMMIT_BYTES

    def load(self) -> LogSnapshot:
        """See `PartitionStore.load`."""
        self._check_usable()
        segment = self.log.state.segments[-1]
        with mapping_errors(segment.path, "reading"):
            segment.check()
            handle = segment.pin()
            try:
                return snapshot(*read_segment(handle, segment.path))
            finally:
                segment.unpin()

    def commit(self, writes: Sequence[LogWrite], *, sync: bool) -> None:
        """See `PartitionStore.commit`."""
        log, runs = self._plan(writes)
        size_bytes = sum([run.size_bytes for run in runs])
        first_offset, synced = log.state.meta.log_end_offset, sync or log.policy.durable
        try:
            log.check()
        except ForeignError as error:
            raise mapped(error, self._directory, "writing") from error
        try:
            if log.synced is not synced:
                self._change_mode(synced=synced)
            for run in runs:
                log.run(run, synced=synced)
        except BaseException as error:
            self._failure = "commit"
            if isinstance(error, ForeignError):
                raise self._commit_error(error, size_bytes) from error
            raise
        if size_bytes:
            self._hot.add(first_offset, size_bytes)

    def commit_at_once(self, writes: Sequence[LogWrite]) -> bool:
        """See `PartitionStore.commit_at_once`: writes to the active segment, without a sync."""
        log, runs = self._plan(writes)
        if log.synced or log.policy.durable or len(runs) > 1 or log.drops_segments(writes):
            return False
        first_offset, size_bytes = log.state.meta.log_end_offset, runs[0].size_bytes
        try:
            done = log.append_in_place(runs[0])
        except BaseException as error:
            self._failure = "commit"
            if isinstance(error, ForeignError):
                raise self._commit_error(error, size_bytes) from error
            raise
        if done and size_bytes:
            self._hot.add(first_offset, size_bytes)
        return done

    def _commit_error(self, error: Exception, size_bytes: int) -> StoreError:
        with self.log.writing():
            return mapped_commit(error, self.log.state.segments[-1].path, size_bytes)

    def _plan(self, writes: Sequence[LogWrite]) -> tuple[SegmentLog, list[Run]]:
        """Return the log, and the writes divided into runs by segment."""
        self._check_usable()
        log = self.log
        meta = log.state.meta
        fill = SegmentFill(meta.size_bytes, meta.first_timestamp_ms)
        runs = plan_runs(writes, meta.log_end_offset, fill, log.policy)
        log.kept_reserve_bytes = self._kept_reserve_bytes(writes, runs)
        return log, runs

    def _kept_reserve_bytes(self, writes: Sequence[LogWrite], runs: Sequence[Run]) -> int:
        """Return how much of the store's reserve the writes may not use: nothing of it, if they remove segments."""
        is_metadata = self._key.topic == METADATA_TOPIC
        if runs[0].size_bytes and not is_metadata:
            return RESERVE_BYTES
        size_bytes = sum([run.size_bytes for run in runs])
        if not size_bytes and (len(runs) > 1 or self.log.drops_segments(writes)):
            return 0
        return RESERVE_BYTES // 2 if is_metadata and size_bytes <= PART_BYTES else RESERVE_BYTES

    def _change_mode(self, *, synced: bool) -> None:
        """Continue in a segment with the other sync mode, which is fixed when LMDB opens an environment.

        A change to synced writes rolls at once, since they must be durable. A change to unsynced writes, such as the
        first after the log was opened, waits until the segment is large enough: else many restarts, or alternating
        modes, would leave many small segments.
        """
        log = self.log
        size_bytes = log.state.meta.size_bytes
        if synced or not 0 < size_bytes < _LEAST_SYNCED_BYTES:
            log.start_segment(log.state.meta.log_end_offset, synced=synced)

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> PageLease | CopyLease:
        """See `PartitionStore.read`."""
        while True:
            try:
                return self._read(self.log.state, start_offset, end_offset, max_bytes)
            except SegmentGoneError:
                continue  # compaction has replaced the segment, or retention deleted it: try again

    def _read(self, state: LogState, start_offset: int, end_offset: int, max_bytes: int) -> PageLease | CopyLease:
        self._check_usable()
        meta = state.meta
        if not meta.log_start_offset <= start_offset <= meta.log_end_offset:
            raise self._out_of_range(start_offset)
        end_offset = min(end_offset, meta.log_end_offset)
        if start_offset >= end_offset:
            return CopyLease()
        first = max(bisect_right(state.bases, start_offset) - 1, 0)
        is_newest = first + 1 == len(state.bases) or state.bases[first + 1] > end_offset
        for segment in state.segments[first:]:
            lease = self._lend(segment, start_offset, end_offset, max_bytes, is_newest=is_newest)
            if lease is not None:
                return lease
        return CopyLease()

    def _lend(
        self, segment: Segment, start_offset: int, end_offset: int, max_bytes: int, *, is_newest: bool
    ) -> PageLease | CopyLease | None:
        try:
            segment.check()
            max_leases = self._context.options.max_leases_per_segment
            lease = lend(segment, start_offset, end_offset, max_bytes, max_leases, is_newest=is_newest)
        except ForeignError as error:
            raise self._read_error(error, segment) from error
        except StoreCorruptError:
            self._check_not_gone(segment)
            raise
        return lease

    def _read_error(self, error: Exception, segment: Segment) -> Exception:
        if segment not in self.log.state.segments:
            return SegmentGoneError()
        return mapped(error, segment.path, "reading")

    def _check_not_gone(self, segment: Segment) -> None:
        if segment not in self.log.state.segments:
            raise SegmentGoneError

    def _out_of_range(self, offset: int) -> OffsetNotInStoreError:
        meta = self.log.state.meta
        return OffsetNotInStoreError(
            f"{self._key}: offset {offset} is not within {meta.log_start_offset} to {meta.log_end_offset}"
        )

    def is_hot(self, start_offset: int) -> bool:
        """See `PartitionStore.is_hot`."""
        state = self.log.state
        is_recent = start_offset >= self._hot.start_offset and start_offset >= state.meta.base_offset
        return is_recent and state.segments[-1].is_open

    def find_by_timestamp(self, timestamp_ms: int) -> int | None:
        """See `PartitionStore.find_by_timestamp`."""
        return self._search(lambda: self._find_by_timestamp(timestamp_ms))

    def find_max_timestamp(self) -> int | None:
        """See `PartitionStore.find_max_timestamp`."""
        return self._search(self._find_max_timestamp)

    def producers_before(self, end_offset: int) -> ProducersAt:
        """See `PartitionStore.producers_before`: a sealed segment has the rows as of its end. One without rows is
        passed over.
        """
        return self._search(lambda: self._producers_before(end_offset))

    def _producers_before(self, end_offset: int) -> ProducersAt:
        state = self.log.state
        for segment, info in reversed(list(zip(state.segments, state.infos(), strict=True))):
            if info.sealed and info.end_offset <= end_offset:
                with self._reading(segment) as (txn, _):
                    producers = read_producers(txn)
                if producers:
                    return ProducersAt(info.end_offset, producers)
        return ProducersAt(state.meta.log_start_offset, NO_ROWS)

    def _search(self, search: Callable[[], T]) -> T:
        while True:
            self._check_usable()
            try:
                return search()
            except SegmentGoneError:
                continue

    def _find_by_timestamp(self, timestamp_ms: int) -> int | None:
        state = self.log.state
        for segment, info in zip(state.segments, state.infos(), strict=True):
            if info.max_timestamp_ms < timestamp_ms or info.end_offset == info.base_offset:
                continue
            with self._reading(segment) as (txn, log):
                offset = first_batch_at(txn, log, timestamp_ms, state.meta.log_start_offset)
            # The transaction may contain a commit that is newer than `state`.
            if offset is not None and offset < state.meta.log_end_offset:
                return offset
        return None

    def _find_max_timestamp(self) -> int | None:
        state = self.log.state
        if state.meta.log_start_offset == state.meta.log_end_offset:
            return None
        largest = NO_TIMESTAMP
        for segment, info in zip(state.segments, state.infos(), strict=True):
            if info.base_offset >= state.meta.log_start_offset:
                largest = max(largest, info.max_timestamp_ms)
            else:
                with self._reading(segment) as (txn, log):
                    largest = max(largest, max_timestamp_from(txn, log, state.meta.log_start_offset))
        return self._find_by_timestamp(largest)

    @contextmanager
    def _reading(self, segment: Segment) -> Generator[tuple[ReadTxn, LogDb]]:
        try:
            segment.check()
            handle = segment.pin()
            try:
                with handle.env.begin(buffers=True) as txn:
                    yield txn, handle.log
            finally:
                segment.unpin()
        except ForeignError as error:
            raise self._read_error(error, segment) from error
        except StoreCorruptError:
            self._check_not_gone(segment)
            raise

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes] = NO_ROWS) -> LogSnapshot:
        """See `PartitionStore.truncate`."""
        self._check_usable()
        with mapping_errors(self._directory, "truncating"):
            self.log.check()
        try:
            self.log.truncate(end_offset, rebuilt)
        except BaseException as error:
            self._failure = "truncation"
            if isinstance(error, ForeignError):
                raise mapped(error, self._directory, "truncating") from error
            raise
        self._hot.reset(self.log.state.meta.log_end_offset)
        return self.load()

    def draft(self, base_offset: int, end_offset: int) -> LmdbDraft:
        """See `PartitionStore.draft`."""
        self._check_usable()
        with mapping_errors(self._directory, "reading"):
            return self.log.draft(base_offset, end_offset)

    def replace(self, draft: SegmentDraft) -> bool:
        """See `PartitionStore.replace`."""
        assert isinstance(draft, LmdbDraft), "a draft of another store"
        self._check_usable()
        with mapping_errors(self._directory, "replacing segments of"):
            self.log.check()
            segment = self.log.prepare_replacement(draft)
            if segment is None:
                return False
            try:
                self.log.replace(draft, segment)
            except BaseException:
                if self.log.has_decided(draft, segment):
                    self._failure = "replacement of segments"
                raise
        return True

    def configure(self, policy: LogPolicy) -> None:
        """See `PartitionStore.configure`."""
        self.log.policy = policy

    def segments(self) -> Sequence[SegmentInfo]:
        """See `PartitionStore.segments`."""
        self._check_usable()
        return self.log.state.infos()

    def size_bytes(self) -> int:
        """See `PartitionStore.size_bytes`: the size of the files' disk blocks."""
        self._check_usable()
        with mapping_errors(self._directory, "measuring"):
            return self.log.space_bytes()

    def close(self) -> None:
        """See `PartitionStore.close`."""
        if self._closed:
            return
        self._closed = True
        try:
            with mapping_errors(self._directory, "closing"):
                self.log.close()
        finally:
            self._on_close(self._key, self.log.state.meta if self._failure else None)

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreError(f"the log of {self._key} is closed")
        if self._failure:
            raise StoreError(f"the log of {self._key} has to be closed and opened again after a failed {self._failure}")
