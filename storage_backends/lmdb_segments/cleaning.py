"""Replaces a run of sealed segments by a compacted one; a crash leaves either the old ones or the new one.

The new segment is written under another name, and synced. Then, in this order: it is renamed to `<base>.cleaned`; one
transaction replaces the old ones by it in the active segment's metadata; readers switch to it; the old files are
removed; it gets its final name. A process that finds a `.cleaned` file when it opens the partition repeats the steps
after the first. If the transaction fails, the `.cleaned` file is removed and the old segments remain, unless the
metadata may already contain the new one.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import lmdb

from odradek.partitions.model import AbortedTransaction, LogWrite, StoredBatch
from odradek.storage_backends.directories import sync_directory
from odradek.storage_backends.interface import SegmentInfo, StoreError
from odradek.storage_backends.lmdb_segments.errors import mapping_errors
from odradek.storage_backends.lmdb_segments.layout import (
    CLEANED_SUFFIX,
    META_KEY,
    SegmentMeta,
    segment_bases,
    segment_name,
)
from odradek.storage_backends.lmdb_segments.segment import (
    EnvSettings,
    Handle,
    LogDb,
    WriteTxn,
    close_env,
    create_env,
    draft_path,
    reading_sealed,
)
from odradek.storage_backends.lmdb_segments.tables import LogRows, adopt_cleaned, append_writes, put_rows, read_rows
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.system import remove, replace

_logger = logging.getLogger(__name__)


class LmdbDraft:
    """A `SegmentDraft`: an environment that is written without syncs until `seal`. `rows` are those at its end."""

    def __init__(
        self, path: Path, sources: tuple[SegmentInfo, ...], rows: LogRows, settings: EnvSettings, options: StoreOptions
    ) -> None:
        self.path = draft_path(path)
        self.sources = sources
        self._rows = rows
        self.aborted: tuple[AbortedTransaction, ...] = ()
        self._options = options
        base_offset = sources[0].base_offset
        self._meta = SegmentMeta(base_offset, base_offset, base_offset)
        with mapping_errors(self.path, "writing"):
            self._handle: Handle | None = create_env(self.path, settings, self._put_meta)

    @property
    def info(self) -> SegmentInfo:
        """The description of the finished segment."""
        meta = self._meta
        return SegmentInfo(
            meta.base_offset, self.sources[-1].end_offset, meta.size_bytes, meta.max_timestamp_ms, sealed=True
        )

    def add(self, batches: Sequence[StoredBatch]) -> None:
        """See `SegmentDraft.add`."""
        handle = self._open_handle()
        with mapping_errors(self.path, "writing"), handle.env.begin(write=True) as txn:
            self._meta = append_writes(txn, handle.log, self._meta, [LogWrite(batches)], self._options)

    def seal(self, aborted: Sequence[AbortedTransaction]) -> None:
        """See `SegmentDraft.seal`."""
        handle = self._open_handle()
        self.aborted = tuple(aborted)
        self._meta = self._meta._replace(log_end_offset=self.sources[-1].end_offset)
        with mapping_errors(self.path, "writing"):
            with handle.env.begin(write=True) as txn:
                put_rows(txn, self._rows._replace(aborted=list(self.aborted), sealed=[]))
                self._put_meta(txn, handle.log)
            handle.env.sync(True)  # noqa: FBT003 - the binding's own parameter
            self._close()

    def discard(self) -> None:
        """See `SegmentDraft.discard`. If the file cannot be removed now, the next open of the partition does it."""
        self._close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _open_handle(self) -> Handle:
        if self._handle is None:
            raise StoreError(f"{self.path} is sealed or discarded")
        return self._handle

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            close_env(handle.env)

    def _put_meta(self, txn: WriteTxn, _: LogDb) -> None:
        txn.put(META_KEY, self._meta.pack())


def cleaned_path(directory: Path, base_offset: int) -> Path:
    """Return the path of a replacement that is decided but not finished."""
    return directory / f"{base_offset:020d}{CLEANED_SUFFIX}"


def read_cleaned(path: Path) -> tuple[SegmentInfo, list[AbortedTransaction]]:
    """Read the segment info and aborted transactions of a `.cleaned` file. Raises foreign errors."""
    with reading_sealed(path) as (txn, meta):
        info = SegmentInfo(meta.base_offset, meta.log_end_offset, meta.size_bytes, meta.max_timestamp_ms, sealed=True)
        return info, read_rows(txn).aborted


Change = Callable[[WriteTxn, LogDb], None]


def adopt_cleaned_file(
    directory: Path,
    info: SegmentInfo,
    aborted: Sequence[AbortedTransaction],
    rows: Callable[[], LogRows],
    write: Callable[[Change], None],
) -> None:
    """Replace the segments of its range by the `.cleaned` file in the active segment's metadata.

    `rows` reads the active segment's rows, and `write` runs a change in a transaction. Raises foreign errors.

    After an error the file is removed, so that nothing has changed, unless the metadata contains it or may contain it:
    LMDB refuses all further transactions when it is unknown whether the last one committed. The removal keeps the log
    readable when the disk is full.
    """
    named_before = False
    try:
        sync_directory(directory)
        named_before = info in rows().sealed
        write(lambda txn, _: adopt_cleaned(txn, info, aborted))
    except BaseException:
        if not named_before and not _may_be_named(info, rows):
            remove(cleaned_path(directory, info.base_offset))
            sync_directory(directory)
        raise


def _may_be_named(info: SegmentInfo, rows: Callable[[], LogRows]) -> bool:
    """True if the active segment's metadata contains `info`, or may contain it. For use after a failed transaction."""
    try:
        return info in rows().sealed
    except (lmdb.Error, OSError):
        return True


def finish_cleanings(directory: Path, active: Handle) -> None:
    """Finish or undo the replacement of every `.cleaned` file. Raises foreign errors.

    An active segment that is written without syncs is not synced: its salvage finds the segments in the directory.
    """

    def rows() -> LogRows:
        with active.env.begin() as txn:
            return read_rows(txn)

    def write(change: Change) -> None:
        with active.env.begin(write=True) as txn:
            change(txn, active.log)

    for path in list(directory.glob(f"{'[0-9]' * 20}{CLEANED_SUFFIX}")):
        info, aborted = read_cleaned(path)
        try:
            adopt_cleaned_file(directory, info, aborted, rows, write)
        except (lmdb.Error, OSError) as error:
            if path.exists():
                raise
            _logger.warning("%s was given up, the log stays as it was before compaction: %s", path, error)
        else:
            put_in_place(directory, info)


def put_in_place(directory: Path, info: SegmentInfo) -> None:
    """Remove the files of the segments that a `.cleaned` file replaces, and give it its final name. Raises OSError."""
    for base in segment_bases(directory):
        if info.base_offset < base < info.end_offset:
            remove(directory / segment_name(base))
    sync_directory(directory)
    replace(cleaned_path(directory, info.base_offset), directory / segment_name(info.base_offset))
    sync_directory(directory)
