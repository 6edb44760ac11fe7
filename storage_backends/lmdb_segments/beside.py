"""Reads the files of a log that another process writes: used by `odradek.pipeline` and `odradek sql`.

Sealed segments never change, but they may be removed (retention, DeleteRecords, a deleted topic) or replaced
(compaction) at any time: then `SegmentGoneError` is raised, and a new `LogView` has the current segments. A file that
is open stays readable after it was renamed or removed.

How the active segment is read while it is written
--------------------------------------------------
LMDB's table of readers is private to the broker (see `segment`), so a read transaction of another process would not
keep the writer from reusing pages. But LMDB never changes a page in place, and a page that belongs to transaction T is
freed by T+1 at the earliest and written again by T+3 at the earliest: without readers, a write transaction W takes
pages that transactions below W-1 freed. So the pages read for T are valid if, after reading, no transaction above T+1
has ended; else they are read again. Later transactions replace only the pages of rows other than batches, and those on
the path to the log's last entry; these are copied in about ten reads, with no decoding in between. The other pages of
the log, and all values on pages of their own, stay unchanged for as long as the segment exists, since the log is only
appended to. (A truncation removes them, but it only affects offsets that were never committed, which no view contains.)

Files are not mapped and no LMDB code runs, so a damaged file raises an error and never crashes the process.
"""

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from odradek.partitions.model import AbortedTransaction, PartitionKey, SegmentInfo
from odradek.storage_backends.beside import LogGoneError, SegmentGoneError
from odradek.storage_backends.interface import StoreCorruptError, StoreError, StoreFormatError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.cleaning import cleaned_path
from odradek.storage_backends.lmdb_segments.layout import (
    FORMAT_FILE,
    FORMAT_NAME,
    FORMAT_VERSION,
    GAPS,
    LOG_DB,
    META_KEY,
    ROW_KEY,
    TIME,
    U64,
    SegmentMeta,
    parse_partition_dir,
    partition_dirs,
    partition_path,
    segment_bases,
    segment_name,
    unpack_meta,
)
from odradek.storage_backends.lmdb_segments.pages import TREE, DamageError, Meta, Pages, meta_at, newest_meta
from odradek.storage_backends.lmdb_segments.tables import alive, decode_rows
from odradek.storage_backends.system import open_to_read
from odradek.wire.records.batch import slice_from_offset
from odradek.wire.records.errors import InvalidRecordBatch

__all__ = ["LmdbLogs", "LogGoneError", "LogView", "SegmentGoneError", "logs_in", "open_lmdb_beside"]

MAX_ATTEMPTS: Final = 10_000
"""The maximal number of attempts to read the active segment while transactions end too quickly; an attempt takes about
50 µs.
"""


def logs_in(root: Path) -> dict[PartitionKey, Path]:
    """Return the directories of a store's partitions; partitions never written to have none.

    Raises StoreFormatError where `root` is no store of this version, StoreError where it cannot be read.
    """
    try:
        found = (root / FORMAT_FILE).read_text(encoding="utf-8", errors="replace").strip()
        if found != f"{FORMAT_NAME} {FORMAT_VERSION}":
            raise StoreFormatError(
                f"{root} has store format {found[:60]!r}; this version knows {FORMAT_NAME} {FORMAT_VERSION}"
            )
        return {key: directory for directory in partition_dirs(root) for key in _key_of(directory)}
    except FileNotFoundError as error:
        raise StoreFormatError(f"{root} is not a data directory of Odradek: it has no file {FORMAT_FILE!r}") from error
    except OSError as error:
        raise StoreError(f"reading {root}: {error}") from error


def _key_of(directory: Path) -> Iterator[PartitionKey]:
    try:
        yield parse_partition_dir(directory)
    except ValueError:
        return  # not a partition's directory


class SegmentFile:
    """A segment's file, open for reading. `path` is its path when it was opened."""

    def __init__(self, path: Path, fd: int, pages: Pages, *, sealed: bool) -> None:
        self.path = path
        self._fd = fd
        self._sealed = sealed
        self._pages = pages
        self._rows = dict(self._read_rows())
        self.meta = self._read_meta()

    def _read_rows(self) -> Iterator[tuple[bytes, bytes]]:
        for key, stored in self._pages.entries(self._pages.meta.roots[1]):
            if key[:1] >= TIME:
                return
            if key[:1] != GAPS:  # their values may be long
                yield key, self._pages.value(stored)

    def _read_meta(self) -> SegmentMeta:
        version, meta = unpack_meta(self._rows.get(META_KEY, b""))
        if meta is None:
            raise DamageError(f"it has no meta row of version {FORMAT_VERSION}, but {version}")
        return meta

    @property
    def rows(self) -> Mapping[bytes, bytes]:
        """Return the rows other than batches, gaps and time index, as stored."""
        return self._rows

    def values(self, start_offset: int, end_offset: int, since_ms: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the values with offsets in the range, each with its last offset; the first and the last may extend
        beyond the range. With `since_ms`, values whose timestamps are all lower may be omitted. Raises
        StoreCorruptError, StoreError.
        """
        try:
            if since_ms is not None:
                start_offset = max(start_offset, self._first_since(since_ms))
            yield from self._values(start_offset, end_offset)
        except (DamageError, struct.error, InvalidRecordBatch) as damage:
            raise StoreCorruptError(f"{self.path} is damaged: {damage}; {what_to_do(self.path)}") from damage
        except OSError as error:
            raise StoreError(f"reading {self.path}: {error}") from error

    def _values(self, start_offset: int, end_offset: int) -> Iterator[tuple[int, bytes]]:
        root = TREE.unpack(self._rows.get(LOG_DB, b""))[-1]
        for key, stored in self._pages.entries(root, U64.pack(start_offset)):
            value = self._pages.value(stored)
            (base_offset,) = U64.unpack_from(value)
            if base_offset >= end_offset:
                return
            if base_offset < start_offset:
                value = bytes(slice_from_offset(value, start_offset))
            (last_offset,) = U64.unpack(key)
            yield last_offset, value
            if last_offset + 1 >= end_offset:
                return

    def _first_since(self, since_ms: int) -> int:
        """Return an offset below which all timestamps are lower than `since_ms`; 0 for an active segment, since a later
        transaction may have replaced the pages of its time index.
        """
        if not self._sealed or since_ms <= 0:
            return 0
        found = self._pages.floor(self._pages.meta.roots[1], ROW_KEY.pack(TIME, since_ms))
        if found is None or found[0][:1] != TIME:
            return 0
        return U64.unpack(self._pages.value(found[1]))[0] + 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class LogView:
    """A log at one point in time: complete transactions of its writer. Close it after use.

    `segments` are in order, the active one last; `aborted` are the aborted transactions that end at or above the log
    start. `producers` are the producers' states as stored (`odradek.partitions.producers` reads them).
    """

    def __init__(self, directory: Path, active: SegmentFile) -> None:
        self.directory = directory
        self._active = active
        meta = active.meta
        kept = alive(decode_rows(active.rows), meta.log_start_offset)
        self.log_start_offset = meta.log_start_offset
        self.log_end_offset = max(meta.log_end_offset, meta.log_start_offset)
        self.aborted: tuple[AbortedTransaction, ...] = tuple(kept.aborted)
        self.producers: Mapping[int, bytes] = {each: state for each, (_, state) in kept.producers.items()}
        last = SegmentInfo(meta.base_offset, meta.log_end_offset, meta.size_bytes, meta.max_timestamp_ms, sealed=False)
        self.segments: tuple[SegmentInfo, ...] = (*kept.sealed, last)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open a view of the log in a partition's directory. Raises LogGoneError, StoreCorruptError, StoreError."""
        while True:
            try:
                bases = segment_bases(directory)
                if not bases:
                    raise StoreCorruptError(f"{directory} has no segment; {what_to_do(directory)}")
                path = directory / segment_name(bases[-1])
            except FileNotFoundError as error:
                raise LogGoneError(f"{directory} is no more: the topic was deleted, or the directory moved") from error
            except OSError as error:
                raise StoreError(f"reading {directory}: {error}") from error
            active = open_active(path)
            if active is not None:
                return cls._of(directory, active)

    @classmethod
    def _of(cls, directory: Path, active: SegmentFile) -> Self:
        try:
            return cls(directory, active)
        except struct.error as error:
            active.close()
            raise StoreCorruptError(
                f"{active.path} has a row that cannot be read ({error}); {what_to_do(active.path)}"
            ) from error

    def values(self, start_offset: int, end_offset: int, since_ms: int | None = None) -> Iterator[tuple[int, bytes]]:
        """See `LogBeside.values`."""
        for info in self.segments:
            if info.end_offset <= start_offset or info.base_offset >= end_offset:
                continue
            if since_ms is not None and info.max_timestamp_ms < since_ms:
                continue
            if not info.sealed:
                yield from self._active.values(start_offset, end_offset, since_ms)
                continue
            segment = open_sealed(self.directory, info)
            try:
                yield from segment.values(start_offset, end_offset, since_ms)
            finally:
                segment.close()

    def close(self) -> None:
        """Close the active segment's file."""
        self._active.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LmdbLogs:
    """A `LogsBeside`: the logs of a data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def keys(self) -> Sequence[PartitionKey]:
        """See `LogsBeside.keys`."""
        return sorted(logs_in(self._root))

    def look(self, key: PartitionKey) -> LogView:
        """See `LogsBeside.look`."""
        return LogView.open(partition_path(self._root, key))

    def close(self) -> None:
        """See `LogsBeside.close`: only views have files open."""


def open_lmdb_beside(path: str) -> LmdbLogs:
    """Open the data directory `path`. Raises StoreFormatError if it is not one."""
    logs_in(Path(path))
    return LmdbLogs(Path(path))


def open_active(path: Path) -> SegmentFile | None:
    """Open the active segment in the state after its last transaction; None if there is no such file.

    Raises StoreCorruptError, StoreError.
    """
    return _opened(path, sealed=False)


def open_sealed(directory: Path, info: SegmentInfo) -> SegmentFile:
    """Open a sealed segment. Raises SegmentGoneError, StoreCorruptError, StoreError.

    A compacted segment has another name until the segments that it replaces are removed (`cleaning`).
    """
    for path in (directory / segment_name(info.base_offset), cleaned_path(directory, info.base_offset)):
        segment = _opened(path, sealed=True)
        if segment is None:
            continue
        if (segment.meta.base_offset, segment.meta.log_end_offset) == (info.base_offset, info.end_offset):
            return segment
        segment.close()
    raise SegmentGoneError(f"{directory / segment_name(info.base_offset)} was removed or replaced")


def _opened(path: Path, *, sealed: bool) -> SegmentFile | None:
    try:
        fd = open_to_read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"opening {path}: {error}") from error
    try:
        pages = Pages(fd, newest_meta(fd)) if sealed else _whole_pages(fd)
        return SegmentFile(path, fd, pages, sealed=sealed)
    except (DamageError, struct.error) as damage:
        os.close(fd)
        raise StoreCorruptError(f"{path} is damaged: {damage}; {what_to_do(path)}") from damage
    except OSError as error:
        os.close(fd)
        raise StoreError(f"reading {path}: {error}") from error
    except BaseException:
        os.close(fd)
        raise


def _whole_pages(fd: int) -> Pages:
    """Return the pages of the last transaction; those that a later one may replace are copied (see the module's
    docstring).
    """
    for _ in range(MAX_ATTEMPTS):
        meta = newest_meta(fd)
        pages = Pages(fd, meta)
        try:
            copy_replaceable(pages)
        except (DamageError, struct.error):
            if _is_whole(fd, meta):
                raise  # no later transaction replaced any
        else:
            if _is_whole(fd, meta):
                return pages
    raise DamageError(f"its transactions end too quickly to read one of them, in {MAX_ATTEMPTS} attempts")


def copy_replaceable(pages: Pages) -> None:
    """Copy the pages that later transactions replace."""
    main_root = pages.meta.roots[1]
    pages.copy(main_root, TIME)
    log = next((stored for key, stored in pages.entries(main_root, LOG_DB) if key == LOG_DB), b"")
    pages.copy_last(TREE.unpack(pages.value(log))[-1])


def _is_whole(fd: int, meta: Meta) -> bool:
    """True if no page read for the transaction can have been overwritten, and `meta` itself was read completely."""
    own = meta_at(fd, (meta.txn_id & 1) * meta.page_bytes)
    return own == meta and newest_meta(fd).txn_id <= meta.txn_id + 1
