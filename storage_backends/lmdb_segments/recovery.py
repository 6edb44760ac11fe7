"""Opens a partition's directory in any state that a crash may leave, without reading batches.

- `*.new`, `*.deleted`, `*-lock`: unfinished, to be deleted, or left by a process killed while LMDB opened a segment.
  Removed.
- `<base>.truncated`: a truncation that had been decided. The file is complete and synced; it replaces all segments from
  that base on. The truncation is finished here.
- `<base>.cleaned`: a replacement of segments that had been decided; see `cleaning`. The replacement is finished here.
- Segments below the log start: the crash occurred between the commit that moved it and their removal. Removed.
- A segment marked as written without syncs before a restart of the operating system: see `salvage`.
"""

import logging
import struct
from pathlib import Path
from typing import NamedTuple

from odradek.storage_backends.directories import sync_directory
from odradek.storage_backends.interface import LogPolicy, SegmentInfo, StoreCorruptError, StoreFormatError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.cleaning import finish_cleanings, put_in_place, read_cleaned
from odradek.storage_backends.lmdb_segments.context import StoreContext, purge
from odradek.storage_backends.lmdb_segments.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    FORMAT_VERSION,
    LOCK_SUFFIX,
    META_KEY,
    NEW_SUFFIX,
    TRUNCATED_SUFFIX,
    UNSYNCED_SUFFIX,
    SegmentMeta,
    segment_bases,
    segment_name,
    unpack_meta,
    unsynced_name,
)
from odradek.storage_backends.lmdb_segments.reader_table import is_left_over
from odradek.storage_backends.lmdb_segments.salvage import salvage_segment
from odradek.storage_backends.lmdb_segments.segment import Handle, Segment, close_env, env_settings, growing, open_env
from odradek.storage_backends.lmdb_segments.tables import LogRows, alive, read_rows
from odradek.storage_backends.system import remove, replace

_logger = logging.getLogger(__name__)


class OpenedLog(NamedTuple):
    """A log opened from disk: its active segment, that segment's meta row, and the sealed segments listed in it."""

    active: Segment
    synced: bool
    meta: SegmentMeta
    sealed: tuple[SegmentInfo, ...]


def open_log(directory: Path, policy: LogPolicy, context: StoreContext) -> OpenedLog:
    """Finish or undo operations that a crash interrupted, and open the log. Raises StoreError and foreign errors."""
    _tidy(directory)
    bases = segment_bases(directory)
    if not bases:
        raise StoreCorruptError(f"{directory} has no segment; {what_to_do(directory)}")
    base_offset = bases[-1]
    synced = _repair(directory, base_offset, context)
    path = directory / segment_name(base_offset)
    settings = growing(env_settings(policy, context.options, synced=synced))
    handle = open_env(path, settings)
    try:
        finish_cleanings(directory, handle)
        meta, kept = read_segment(handle, path)
        sealed = tuple(alive(kept, meta.log_start_offset).sealed)
        _check_sealed(directory, segment_bases(directory)[:-1], sealed)
    except BaseException:
        close_env(handle.env)
        raise
    active = Segment(path, base_offset, context.open_files, handle, settings)
    active.watch()
    return OpenedLog(active, synced, meta, sealed)


def make_durable(opened: OpenedLog, directory: Path) -> None:
    """Make the opened log durable, after its last commit was reported as failed.

    The pages of a transaction are synced before its meta page is written, and commits write the two meta pages in turn.
    So one more commit makes both durable, also after a failed sync, whose error later syncs do not report.
    """
    sync_directory(directory)
    if opened.synced:
        handle = opened.active.pin_to_write()
        try:
            with handle.env.begin(write=True) as txn:
                txn.put(META_KEY, opened.meta.pack())
        finally:
            opened.active.unpin_written()


def read_segment(handle: Handle, path: Path) -> tuple[SegmentMeta, LogRows]:
    """Read all rows of a segment except batches and time index. Raises StoreFormatError, StoreCorruptError."""
    with handle.env.begin() as txn:
        value = txn.get(META_KEY)
        if value is None:
            raise StoreCorruptError(f"{path} has no meta row; {what_to_do(path)}")
        version, meta = unpack_meta(value)
        if meta is None:
            raise StoreFormatError(f"{path} has segment format {version}; this version knows {FORMAT_VERSION}")
        try:
            return meta, read_rows(txn)
        except struct.error as error:
            raise StoreCorruptError(f"{path} has a row that cannot be read ({error}); {what_to_do(path)}") from error


def _tidy(directory: Path) -> None:
    for entry in list(directory.iterdir()):
        is_lock = entry.name.endswith(LOCK_SUFFIX)
        if is_left_over(entry) if is_lock else entry.suffix in (NEW_SUFFIX, DELETED_SUFFIX):
            purge(entry)
    for entry in directory.glob(f"{'[0-9]' * 20}{TRUNCATED_SUFFIX}"):
        finish_truncation(directory, int(entry.stem))


def finish_truncation(directory: Path, base_offset: int) -> None:
    """Replace the segments from `base_offset` on by `<base>.truncated`. Raises OSError."""
    for base in reversed(segment_bases(directory)):
        if base > base_offset:
            remove(directory / segment_name(base))
            (directory / unsynced_name(base)).unlink(missing_ok=True)
    (directory / unsynced_name(base_offset)).unlink(missing_ok=True)
    sync_directory(directory)  # the removals are durable before the rename, so that the log never has a gap
    replace(directory / f"{base_offset:020d}{TRUNCATED_SUFFIX}", directory / segment_name(base_offset))
    sync_directory(directory)


def _repair(directory: Path, base_offset: int, context: StoreContext) -> bool:
    """Repair an active segment that was written without syncs, if necessary; return whether it has to be written with
    syncs. An empty marker is never that of this boot: a sync has failed, or a user has emptied it.
    """
    for marker in directory.glob(f"*{UNSYNCED_SUFFIX}"):
        if marker.name != unsynced_name(base_offset):
            marker.unlink()  # a sealed segment is synced
    marker = directory / unsynced_name(base_offset)
    if not marker.exists():
        return True
    boot_id = marker.read_bytes()
    if boot_id and boot_id == context.boot_id.encode():
        return False  # only the process crashed: all its writes are in the page cache
    for entry in directory.glob(f"*{CLEANED_SUFFIX}"):
        put_in_place(directory, read_cleaned(entry)[0])  # the salvaged segment's metadata will contain it
    salvage_segment(directory, base_offset, context)
    return True


def _check_sealed(directory: Path, bases: list[int], sealed: tuple[SegmentInfo, ...]) -> None:
    """Compare the files with the active segment's list: remove files that are not in it; raise StoreCorruptError if one
    is missing.
    """
    kept = {info.base_offset for info in sealed}
    missing = sorted(kept.difference(bases))
    if missing:
        names = ", ".join(segment_name(base) for base in missing)
        raise StoreCorruptError(f"{directory} lacks {names}; {what_to_do(directory)}")
    for base in bases:
        if base not in kept:
            _logger.info("removing %s: it lies below the log start", directory / segment_name(base))
            remove(directory / segment_name(base))
