"""The writer's side of a log: its active segment, and creation and removal of segments.

Order of events in a roll: the old segment is synced; the new one is created under another name with a copy of the log's
state, and synced; it is renamed to its final name and the directory synced. Until the rename the old segment is the
active one, after it the new one. A truncation into a sealed segment creates a shortened copy in the same way; after the
copy's first rename, recovery finishes the truncation (`recovery.finish_truncation`).

Nothing here maps errors: `partition` does.
"""

import errno
import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import lmdb

from odradek.partitions.model import LogWrite
from odradek.storage_backends.directories import sync_directory, write_durably
from odradek.storage_backends.interface import LogPolicy, SegmentInfo
from odradek.storage_backends.lmdb_segments.cleaning import LmdbDraft, adopt_cleaned_file, cleaned_path
from odradek.storage_backends.lmdb_segments.context import StoreContext
from odradek.storage_backends.lmdb_segments.errors import ForeignError, is_full
from odradek.storage_backends.lmdb_segments.layout import (
    META_KEY,
    TRUNCATED_SUFFIX,
    SegmentMeta,
    segment_name,
    unsynced_name,
)
from odradek.storage_backends.lmdb_segments.recovery import OpenedLog, finish_truncation, open_log, read_segment
from odradek.storage_backends.lmdb_segments.reserve import RESERVE_BYTES
from odradek.storage_backends.lmdb_segments.segment import (
    EnvSettings,
    Handle,
    LogDb,
    Segment,
    WriteTxn,
    close_env,
    copy_segment,
    create_env,
    draft_path,
    env_settings,
    growing,
    moved,
    open_env,
    open_sealed_env,
)
from odradek.storage_backends.lmdb_segments.tables import (
    LogRows,
    alive,
    append_writes,
    below,
    put_gaps,
    put_rows,
    read_rows,
)
from odradek.storage_backends.lmdb_segments.truncation import truncate_segment
from odradek.storage_backends.planning import Run, RunStart, checked_run, sealed_run
from odradek.storage_backends.system import disk_bytes, replace

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class LogState(NamedTuple):
    """The state for readers, replaced as a whole after each commit. The last segment is the active one."""

    meta: SegmentMeta
    bases: tuple[int, ...]
    segments: tuple[Segment, ...]
    sealed: tuple[SegmentInfo, ...]

    def infos(self) -> tuple[SegmentInfo, ...]:
        """Return the descriptions of all segments."""
        meta = self.meta
        active = SegmentInfo(
            meta.base_offset, meta.log_end_offset, meta.size_bytes, meta.max_timestamp_ms, sealed=False
        )
        return (*self.sealed, active)


class SegmentLog:
    """The segments of one log, open for writing. One thread at a time; `state` may be read by any.

    On a full disk, a commit may use the store's reserve down to `kept_reserve_bytes`.
    """

    def __init__(self, directory: Path, policy: LogPolicy, context: StoreContext, opened: OpenedLog) -> None:
        self._directory = directory
        self._context = context
        self.policy = policy
        self.kept_reserve_bytes = RESERVE_BYTES
        self._sync_failed = False
        self._adopt(opened, {})

    def _adopt(self, opened: OpenedLog, known: dict[int, Segment]) -> None:
        self._active = opened.active
        self._has_active = True
        self.synced = opened.synced
        bases = [info.base_offset for info in opened.sealed]
        sealed = [known.get(base) or Segment(self._path(base), base, self._context.open_files) for base in bases]
        self.state = LogState(opened.meta, (), (*sealed, opened.active), opened.sealed)
        self._publish(opened.meta)

    def _publish(self, meta: SegmentMeta) -> None:
        _, bases, segments, sealed = self.state
        if len(bases) != len(segments) or bases[-1] != meta.base_offset:
            bases = tuple([segment.base_offset for segment in segments])
        self.state = LogState(meta, bases, segments, sealed)

    def _path(self, base_offset: int) -> Path:
        return self._directory / segment_name(base_offset)

    def run(self, run: Run, *, synced: bool) -> None:
        """Commit a run of writes, in a new segment if `run.start` requires one."""
        size_bytes = run.size_bytes
        if run.start is not RunStart.CONTINUE:
            restart = run.start is RunStart.RESTART
            self.start_segment(run.base_offset, synced=synced, restart=restart, need_bytes=size_bytes)
        if not run.writes:
            return
        active = self._active
        if active.is_short_of_map(size_bytes) and not active.grow(size_bytes) and active.is_short_of_map(size_bytes):
            # Clients hold pages, or address space is short. The check is repeated since `grow` also returns False for a
            # lease that was taken after the first check, and then the map only has to grow above three quarters.
            self._start_fresh(size_bytes, synced=synced)
        try:
            self._append(run.writes, size_bytes)
        except lmdb.MapFullError:
            # readers hold old pages, which therefore cannot be reused: a new segment has space
            self._start_fresh(size_bytes, synced=synced)
            self._append(run.writes, size_bytes)
        self._drop_dead()

    def append_in_place(self, run: Run) -> bool:
        """Commit writes to the active segment; return False, and change nothing, if it is not open or its map is too
        small. Raises StoreCorruptError if another program has changed the segment's file.
        """
        active = self._active
        active.check()
        if not active.is_open or active.is_short_of_map(run.size_bytes):
            return False  # opening or growing it may wait, so a thread does that
        if run.writes:
            try:
                self._append(run.writes, run.size_bytes, grows=False)
            except lmdb.MapFullError:
                return False
        return True

    def drops_segments(self, writes: Sequence[LogWrite]) -> bool:
        """True if the writes move the log start above whole segments."""
        sealed = self.state.sealed
        if not sealed:
            return False
        starts = [write.log_start_offset for write in writes if write.log_start_offset is not None]
        return sealed[0].end_offset <= max(starts, default=self.state.meta.log_start_offset)

    def _start_fresh(self, need_bytes: int, *, synced: bool) -> None:
        self.start_segment(self.state.meta.log_end_offset, synced=synced, need_bytes=need_bytes)

    def _append(self, writes: Sequence[LogWrite], size_bytes: int, *, grows: bool = True) -> None:
        def put(txn: WriteTxn, log: LogDb) -> SegmentMeta:
            return self._put(txn, log, writes)

        def write() -> SegmentMeta:
            return self._write(put, size_bytes) if grows else self._write_once(put)

        self._publish(self._with_reserve(write, size_bytes))

    def _put(self, txn: WriteTxn, log: LogDb, writes: Sequence[LogWrite]) -> SegmentMeta:
        before = self.state.meta
        if not self.synced:
            put_gaps(txn, before.log_end_offset, writes)
        return append_writes(txn, log, before, writes, self._context.options)

    def _with_reserve(self, write: Callable[[], T], size_bytes: int = 0) -> T:
        """Do `write`; while no space is left for it, again with a further part of the store's reserve.

        It must begin from nothing each time: what a failed sync has not written may be lost.
        """
        while True:
            try:
                return write()
            except ForeignError as error:
                if self.kept_reserve_bytes == RESERVE_BYTES or not self._is_full(error, size_bytes):
                    raise
                if not self._context.reserve.give_up(self.kept_reserve_bytes):
                    raise

    def _is_full(self, error: Exception, size_bytes: int) -> bool:
        with self.writing():
            return is_full(error, self._active.path, size_bytes)

    def _write(self, change: Callable[[WriteTxn, LogDb], T], size_bytes: int = 0) -> T:
        """Run `change` in a transaction of the active segment; again after each time that the map was full and could be
        enlarged.
        """
        while True:
            try:
                return self._write_once(change)
            except lmdb.MapFullError:
                if not self._active.grow(size_bytes):
                    raise

    def _write_once(self, change: Callable[[WriteTxn, LogDb], T]) -> T:
        active = self._active
        handle = active.pin_to_write()
        try:
            with handle.env.begin(write=True) as txn:
                return change(txn, handle.log)
        finally:
            active.unpin_written()

    def start_segment(self, base_offset: int, *, synced: bool, restart: bool = False, need_bytes: int = 0) -> None:
        """Seal the active segment and continue in a new one, which replaces an empty segment with the same base offset.
        With `restart` the log is emptied: the new segment has none of the earlier batches and rows.
        """
        old, old_synced, meta = self._active, self.synced, self.state.meta
        if not old_synced:
            self._sync()
        sealed = () if restart else self._sealed_by(base_offset)
        kept = LogRows({}, {}, [], []) if restart else self._carried(sealed)
        meta = SegmentMeta(base_offset, base_offset if restart else meta.log_start_offset, base_offset)
        full = env_settings(self.policy, self._context.options, synced=synced, need_bytes=need_bytes)
        settings = growing(full, need_bytes)
        files = self._context.open_files
        handle = files.with_room(
            lambda: self._with_reserve(lambda: self._place(base_offset, settings, meta, kept), need_bytes)
        )
        active = Segment(self._path(base_offset), base_offset, files, handle, settings)
        active.watch()
        self._switch(active, meta, sealed)
        self.synced = synced
        if not old_synced:
            self._end_marker(old.base_offset, is_kept=old.base_offset == base_offset and not synced)

    def _end_marker(self, base_offset: int, *, is_kept: bool) -> None:
        """Remove the marker of a segment that was sealed, or make it that of the segment with the same base offset."""
        if is_kept:
            self._marker(base_offset).write_bytes(self._context.boot_id.encode())  # `_truncate_active` has emptied it
        else:
            self._remove_marker(base_offset)

    def _remove_marker(self, base_offset: int) -> None:
        """Durably remove the marker of unsynced writes: after a power cut, a synced segment would be salvaged."""
        self._marker(base_offset).unlink(missing_ok=True)
        sync_directory(self._directory)

    def _sealed_by(self, base_offset: int) -> tuple[SegmentInfo, ...]:
        meta = self.state.meta
        infos = (_as_sealed(info) for info in self.state.infos() if info.base_offset != base_offset)
        return tuple(info for info in infos if info.end_offset > meta.log_start_offset)

    def _carried(self, sealed: tuple[SegmentInfo, ...]) -> LogRows:
        return alive(self.rows(), self.state.meta.log_start_offset)._replace(sealed=list(sealed))

    def _place(self, base_offset: int, settings: EnvSettings, meta: SegmentMeta, kept: LogRows) -> Handle:
        path = self._path(base_offset)
        handle = make_segment(draft_path(path), settings, meta, kept)
        try:
            marker = self._marker(base_offset)
            if not settings.synced and not marker.exists():
                write_durably(marker, self._context.boot_id.encode())
            if self._active.path == path:
                self._active.rest()
            handle = moved(handle, settings, draft_path(path), path, path)
            sync_directory(self._directory)
        except BaseException:
            close_env(handle.env)
            raise
        return handle

    def _switch(self, active: Segment, meta: SegmentMeta, sealed: tuple[SegmentInfo, ...]) -> None:
        """Make `active` the active segment, and drop the segments that are not in `sealed`."""
        old = self.state.segments
        self._active = active
        bases = {info.base_offset for info in sealed}
        self.state = LogState(meta, (), (*(each for each in old if each.base_offset in bases), active), sealed)
        self._publish(meta)
        if old[-1].base_offset in bases:
            old[-1].seal()
        for segment in old:
            if segment.base_offset not in bases:
                self._let_go(segment, keep_file=segment.base_offset == active.base_offset)

    def _let_go(self, segment: Segment, *, keep_file: bool = False) -> None:
        segment.retire()
        if not keep_file:
            try:
                self._context.file_remover.remove(segment.path)
            except OSError as error:  # not an error of the commit: the next open removes the file
                _logger.warning("cannot remove %s: %s", segment.path, error)

    def _drop_dead(self) -> None:
        """Remove the segments that are completely below the log start."""
        meta, _, segments, sealed = self.state
        dead = bisect_right([info.end_offset for info in sealed], meta.log_start_offset)
        if dead:
            self.state = LogState(meta, (), segments[dead:], sealed[dead:])
            self._publish(meta)
            for segment in segments[:dead]:
                self._let_go(segment)

    def draft(self, base_offset: int, end_offset: int) -> LmdbDraft:
        """See `PartitionStore.draft`."""
        state = self.state
        run = checked_run(state.sealed, base_offset, end_offset)
        last = next(segment for segment in state.segments if segment.base_offset == run[-1].base_offset)
        last.check()
        rows = _read_rows(last)
        need_bytes = sum(info.size_bytes for info in run)
        settings = env_settings(self.policy, self._context.options, synced=False, need_bytes=need_bytes)
        return LmdbDraft(self._path(base_offset), run, rows, settings, self._context.options)

    def prepare_replacement(self, draft: LmdbDraft) -> Segment | None:
        """Open a draft as the segment of its range; None if the range has changed. Does not change the log."""
        info = draft.info
        if sealed_run(self.state.sealed, info.base_offset, info.end_offset) != draft.sources:
            return None
        handle = self._context.open_files.with_room(lambda: open_sealed_env(draft.path))
        segment = Segment(self._path(info.base_offset), info.base_offset, self._context.open_files, handle)
        segment.begin_move()  # so that it is not closed and reopened while its file is renamed
        return segment

    def replace(self, draft: LmdbDraft, segment: Segment) -> None:
        """Replace the draft's range by `segment`, the opened and pinned draft. After an error see `has_decided`."""
        try:
            replace(draft.path, cleaned_path(self._directory, draft.info.base_offset))
            adopt_cleaned_file(self._directory, draft.info, draft.aborted, self.rows, self._write)
        except BaseException:
            segment.end_move()
            segment.retire()
            raise
        self._show_replacement(draft, segment)

    def has_decided(self, draft: LmdbDraft, segment: Segment) -> bool:
        """True if a replacement that failed is visible, or is finished when the log is reopened; otherwise nothing has
        changed.
        """
        return segment in self.state.segments or cleaned_path(self._directory, draft.info.base_offset).exists()

    def _show_replacement(self, draft: LmdbDraft, segment: Segment) -> None:
        """Make the new segment visible to readers, and remove the old ones."""
        state, info = self.state, draft.info
        first = state.bases.index(info.base_offset)
        past = first + len(draft.sources)
        old = state.segments[first:past]
        try:
            segments = (*state.segments[:first], segment, *state.segments[past:])
            sealed = (*state.sealed[:first], info, *state.sealed[past:])
            self.state = LogState(state.meta, tuple([each.base_offset for each in segments]), segments, sealed)
            for each in old:
                self._let_go(each)
            replace(cleaned_path(self._directory, info.base_offset), segment.path)
            segment.watch()
            sync_directory(self._directory)
        finally:
            segment.end_move()

    def check(self) -> None:
        """Raise StoreCorruptError if another program has changed the active segment's file."""
        self._active.check()

    @contextmanager
    def writing(self) -> Generator[None]:
        """Mark changes of the active segment's file in the block as made by the writer."""
        active = self._active
        active.begin_write()
        try:
            yield
        finally:
            active.end_write()

    def rows(self) -> LogRows:
        """Read the active segment's rows."""
        return _read_rows(self._active)

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes]) -> None:
        """See `PartitionStore.truncate`. After an error the log has to be reopened."""
        state = self.state
        is_above_start = end_offset >= state.meta.log_start_offset
        index = bisect_right(state.bases, end_offset) - 1 if is_above_start else -1
        if index == len(state.segments) - 1:
            self._truncate_active(end_offset, rebuilt)
        else:
            base_offset = state.bases[index] if index >= 0 else end_offset
            self._make_truncated(base_offset, end_offset, rebuilt, exists=index >= 0)
            self._replace_from(max(index, 0), base_offset)

    def _truncate_active(self, end_offset: int, rebuilt: Mapping[int, bytes]) -> None:
        """Truncate the active segment. If it is written without syncs and batches are dropped, the log continues in a
        new one. Otherwise new batches could be written to the pages of those that are dropped, and if a power cut undid
        that, a salvage would find valid batches there. It is salvaged if the process is killed before that.
        """
        before = self.state.meta
        is_to_seal = not self.synced and end_offset < before.log_end_offset
        if is_to_seal:
            self._distrust()
        start_offset = before.log_start_offset
        rows = alive(self.rows(), start_offset)
        meta = self._write(
            lambda txn, log: truncate_segment((txn, log), before, rows, rebuilt, end_offset, start_offset)
        )
        if not self.synced:
            self._sync()
        self._publish(meta)
        if is_to_seal:
            self.start_segment(meta.log_end_offset, synced=False)

    def _make_truncated(self, base_offset: int, end_offset: int, rebuilt: Mapping[int, bytes], *, exists: bool) -> None:
        """Create the file that replaces all segments from `base_offset` on; after it has returned, recovery finishes
        the replacement.
        """
        target = self._directory / f"{base_offset:020d}{TRUNCATED_SUFFIX}"
        draft = draft_path(target)
        settings = env_settings(self.policy, self._context.options, synced=True)
        log_start_offset = self.state.meta.log_start_offset
        rows = alive(self.rows(), log_start_offset)
        if exists:
            copy_segment(self._path(base_offset), draft)
            handle = open_env(draft, settings)
        else:
            meta = SegmentMeta(end_offset, end_offset, end_offset)
            handle = make_segment(draft, settings, meta, below(rows, end_offset, rebuilt))
        try:
            meta, _ = read_segment(handle, draft)
            with handle.env.begin(write=True) as txn:
                truncate_segment((txn, handle.log), meta, rows, rebuilt, end_offset, log_start_offset)
        finally:
            close_env(handle.env)
        replace(draft, target)
        sync_directory(self._directory)

    def _replace_from(self, index: int, base_offset: int) -> None:
        kept, gone = self.state.segments[:index], self.state.segments[index:]
        self.state = self.state._replace(segments=kept)
        self._has_active = False
        for segment in gone:
            self._let_go(segment, keep_file=True)
        finish_truncation(self._directory, base_offset)
        opened = open_log(self._directory, self.policy, self._context)
        self._adopt(opened, {segment.base_offset: segment for segment in kept})

    def _sync(self) -> None:
        """Sync the active segment. A failure is final, and the next opening salvages the segment: the operating system
        may count pages that it could not write as written, so that a second sync would succeed without them.
        """
        if self._sync_failed:
            raise OSError(errno.EIO, "an earlier sync failed")
        handle = self._active.pin()
        try:
            handle.env.sync(True)  # noqa: FBT003 - the binding's own parameter
        except BaseException:
            self._sync_failed = True
            self._distrust()
            raise
        finally:
            self._active.unpin()

    def _distrust(self) -> None:
        """Make the next opening salvage the active segment. Not durable: it does so after a power cut in any case."""
        self._marker(self._active.base_offset).write_bytes(b"")

    def _marker(self, base_offset: int) -> Path:
        return self._directory / unsynced_name(base_offset)

    def close(self) -> None:
        """Sync the log if necessary, and close all segments. Raises StoreCorruptError if the active one is damaged."""
        try:
            self.check()
            if self._has_active and not self.synced:
                self._sync()
                self._remove_marker(self._active.base_offset)
        finally:
            for segment in self.state.segments:
                self._let_go(segment, keep_file=True)

    def space_bytes(self) -> int:
        """Return the disk space of all segments."""
        return sum(disk_bytes(segment.path) for segment in self.state.segments)


def _read_rows(segment: Segment) -> LogRows:
    handle = segment.pin()
    try:
        with handle.env.begin() as txn:
            return read_rows(txn)
    finally:
        segment.unpin()


def _as_sealed(info: SegmentInfo) -> SegmentInfo:
    """Return the description with `sealed` set."""
    return SegmentInfo(info.base_offset, info.end_offset, info.size_bytes, info.max_timestamp_ms, sealed=True)


def make_segment(path: Path, settings: EnvSettings, meta: SegmentMeta, kept: LogRows) -> Handle:
    """Create a segment without batches."""

    def fill(txn: WriteTxn, _: LogDb) -> None:
        put_rows(txn, kept)
        txn.put(META_KEY, meta.pack())

    return create_env(path, settings, fill)
