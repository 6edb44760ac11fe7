"""One segment's file and its LMDB environment: creating, opening, growing and closing it.

LMDB allows one environment per file and process, so its users share it: `pin` and `unpin` count them, and an
environment in use is never closed. An environment without users may be closed at any time, to save descriptors,
memory and address space (`open_files`); the next `pin` opens it again. LMDB's table of readers stays mapped, so pages
under a lease are not reused. Where it is not in memory (`reader_table`), a file is closed before it is renamed or
removed: `begin_move`, `rest` and `retire` wait for the reads in progress, and no pages are lent to clients.

The map of a segment that is written to starts small and grows, since it counts as address space of the process
(`ulimit -v`). LMDB can only map a file anew while nothing uses the old map, so growing waits for the readers and keeps
new ones waiting. It grows when half of it is used and no client holds pages. While clients hold pages, growing is
postponed until three quarters are used; from five eighths on, and while the map is small, no pages are lent to clients
(`may_lend`), so readers get copies. If a client still holds pages at three quarters, the log continues in a new segment
instead (`SegmentLog`).
"""

import errno
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Lock
from typing import NamedTuple, TypeAlias

import lmdb
from lmdb import _Database  # pyright: ignore[reportPrivateUsage]

from odradek.storage_backends.interface import LogPolicy, StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.footprint import Footprint
from odradek.storage_backends.lmdb_segments.inspection import check_file
from odradek.storage_backends.lmdb_segments.layout import (
    LOG_DB,
    META_KEY,
    NEW_SUFFIX,
    SegmentMeta,
    unpack_meta,
)
from odradek.storage_backends.lmdb_segments.open_files import OpenFiles
from odradek.storage_backends.lmdb_segments.pages import content_bytes
from odradek.storage_backends.lmdb_segments.reader_table import (
    FILES_GROW,
    MOVES_OPEN_FILES,
    reader_table,
    remove_lock_file,
)
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.system import replace

LogDb = _Database
WriteTxn: TypeAlias = "lmdb.Transaction[bytes]"
Fill = Callable[[WriteTxn, LogDb], None]

_SPARE_READ_TXNS = 8
_TRANSIENT_READERS = 40  # reader slots for reads in progress, beside those for leases
_SPACE_PERCENT = 220  # worst ratio of pages to bytes of batches: values just above a page take two

_FIRST_MAP_BYTES = 1 << 20
_GROWTH = 4
_ROW_BYTES = 256 * 1024  # space for rows other than batches
_PAGE_BYTES = 4096
_COPY_BYTES = 1 << 20

WRITER_FILES = 4  # data, data again for synced writes, the reader table, and the footprint's
READER_FILES = 1

_registry_lock = Lock()
"""Held while environments are opened and closed. The binding registers open environments by inode, and removes one
after its files are closed: without this lock, a new file could get the inode of one that is being closed, and be
mistaken for it.
"""


class Handle(NamedTuple):
    """An open environment and its log database."""

    env: lmdb.Environment
    log: LogDb


class EnvSettings(NamedTuple):
    """How to open an environment for writing. `synced` is LMDB's default mode, in which every commit is durable.

    A map smaller than `full_map_bytes` may grow (`Segment.grow`). Pages of one smaller than `lending_map_bytes` are not
    lent.
    """

    map_bytes: int
    synced: bool
    max_readers: int
    full_map_bytes: int = 0
    lending_map_bytes: int = 0


def env_settings(policy: LogPolicy, options: StoreOptions, *, synced: bool, need_bytes: int = 0) -> EnvSettings:
    """Return settings with a map that a segment of that policy, or one write of `need_bytes`, does not fill, unless
    readers keep freed pages from being reused.

    The map is address space, not memory or disk.
    """
    payload = max(policy.segment_bytes, need_bytes)
    map_bytes = payload * _SPACE_PERCENT // 100 + options.map_slack_bytes
    max_readers = options.max_leases_per_segment + _TRANSIENT_READERS
    return EnvSettings(_whole_pages(map_bytes), synced, max_readers, lending_map_bytes=options.lending_map_bytes)


def growing(settings: EnvSettings, need_bytes: int = 0) -> EnvSettings:
    """Return the settings with a small initial map, large enough for `need_bytes` of batches."""
    full = max(settings.map_bytes, settings.full_map_bytes)
    return settings._replace(map_bytes=_map_for(_space_for(need_bytes), full), full_map_bytes=full)


def _space_for(batch_bytes: int) -> int:
    return batch_bytes * _SPACE_PERCENT // 100 + _ROW_BYTES


def _map_for(space_bytes: int, full_map_bytes: int) -> int:
    """Return the size of the smallest map of which `space_bytes` are at most half."""
    map_bytes = _FIRST_MAP_BYTES
    while map_bytes < space_bytes * 2:
        map_bytes *= _GROWTH
    return min(map_bytes, full_map_bytes)


def _whole_pages(size_bytes: int) -> int:
    return (size_bytes + 0xFFFF) & ~0xFFFF


def _open_env(path: Path, settings: EnvSettings) -> lmdb.Environment:
    with reader_table(path, settings.max_readers), _registry_lock:
        return lmdb.open(
            str(path),
            subdir=False,
            map_size=settings.map_bytes,
            sync=settings.synced,
            max_dbs=2,
            max_readers=settings.max_readers,
            max_spare_txns=_SPARE_READ_TXNS,
        )


def create_env(path: Path, settings: EnvSettings, fill: Fill) -> Handle:
    """Create a segment at `path`, filled by `fill` in its first transaction; on return it is synced, except for its
    name. A file at `path` is replaced. Raises lmdb.Error and OSError; then there is no file.
    """
    while True:
        try:
            return _create_env(path, settings, fill)
        except lmdb.MapFullError:
            if settings.map_bytes >= settings.full_map_bytes:
                raise
            settings = _larger(settings)


def _larger(settings: EnvSettings) -> EnvSettings:
    return settings._replace(map_bytes=min(settings.map_bytes * _GROWTH, settings.full_map_bytes))


def _create_env(path: Path, settings: EnvSettings, fill: Fill) -> Handle:
    path.unlink(missing_ok=True)
    env = _open_env(path, settings)
    try:
        with env.begin(write=True) as txn:
            log = env.open_db(LOG_DB, txn=txn)
            fill(txn, log)
        if not settings.synced:
            env.sync(True)  # noqa: FBT003 - the binding's own parameter
    except BaseException:
        close_env(env)
        path.unlink(missing_ok=True)
        raise
    return Handle(env, log)


def open_env(path: Path, settings: EnvSettings) -> Handle:
    """Open an existing segment for writing. Raises StoreCorruptError, lmdb.Error, OSError."""
    check_file(path)
    return reopen_env(path, settings)


def reopen_env(path: Path, settings: EnvSettings) -> Handle:
    """As `open_env`, for a file that has been checked before and not changed since. Raises lmdb.Error, OSError."""
    used_bytes = path.stat().st_size if FILES_GROW else content_bytes(path)
    room = _whole_pages(used_bytes * 2)
    env = _open_env(path, settings._replace(map_bytes=max(settings.map_bytes, room)))
    return _with_log(env)


def open_sealed_env(path: Path) -> Handle:
    """Open a segment that has no writer; any process may do so. Raises StoreCorruptError, lmdb.Error, OSError."""
    check_file(path)  # a missing file raises OSError instead of being created
    return open_doubtful_env(path)


@contextmanager
def reading_sealed(path: Path) -> Generator[tuple[WriteTxn, SegmentMeta]]:
    """A transaction on a segment that has no writer, and its meta row, for the block. Raises StoreCorruptError if the
    row is missing, lmdb.Error, OSError.
    """
    handle = open_sealed_env(path)
    try:
        with handle.env.begin() as txn:
            _, meta = unpack_meta(txn.get(META_KEY, b""))
            if meta is None:
                raise StoreCorruptError(f"{path} has no meta row; {what_to_do(path)}")
            yield txn, meta
    finally:
        close_env(handle.env)


def open_doubtful_env(path: Path) -> Handle:
    """As `open_sealed_env`, without checking the file first: a damaged one may kill the process. Raises lmdb.Error,
    OSError.
    """
    path.stat()
    # A lock file that could not be removed links to a descriptor that may belong to another file by now. The binding
    # counts it as one of the environment's files, and could mistake this environment for an open one.
    remove_lock_file(path)
    with _registry_lock:
        env = lmdb.open(
            str(path),
            subdir=False,
            map_size=1,
            readonly=True,
            lock=False,
            create=False,
            max_dbs=2,
            max_spare_txns=_SPARE_READ_TXNS,
        )
    return _with_log(env)


def close_env(env: lmdb.Environment) -> None:
    """Close an environment that is not in use. Idempotent."""
    if MOVES_OPEN_FILES:
        with _registry_lock:
            env.close()
        return
    try:
        path = Path(env.path())
    except lmdb.Error:
        return  # it is closed
    with _registry_lock:
        env.close()
        remove_lock_file(path)


def moved(handle: Handle, settings: EnvSettings, draft: Path, target: Path, path: Path) -> Handle:
    """Rename `draft`, a new segment or the directory of one, to `target`; the segment is at `path` then. Return the
    environment. Raises lmdb.Error, OSError.
    """
    if MOVES_OPEN_FILES:
        replace(draft, target)
        return handle
    close_env(handle.env)
    replace(draft, target)
    return reopen_env(path, settings)


def copy_segment(path: Path, draft: Path) -> None:
    """Copy the file of a segment that has no writer. Raises StoreCorruptError, OSError."""
    if FILES_GROW:
        shutil.copyfile(path, draft)
        return
    left_bytes = content_bytes(path)
    with path.open("rb") as source, draft.open("wb") as copy:
        while left_bytes and (part := source.read(min(left_bytes, _COPY_BYTES))):
            copy.write(part)
            left_bytes -= len(part)


def _with_log(env: lmdb.Environment) -> Handle:
    try:
        return Handle(env, env.open_db(LOG_DB, create=False))
    except BaseException:
        close_env(env)
        raise


def draft_path(path: Path) -> Path:
    """Return the path at which a segment is created before it is moved to `path`."""
    return path.with_name(path.name + NEW_SUFFIX)


class Segment:
    """A segment of an open log. All methods may be called from any thread.

    A segment with `settings` is written to. `is_used` is set when it is pinned, and reset when `OpenFiles` checks it.
    """

    __slots__ = (
        "_changed",
        "_files",
        "_footprint",
        "_handle",
        "_is_growing",
        "_leases",
        "_lock",
        "_map_bytes",
        "_retired",
        "_settings",
        "_used_bytes",
        "_users",
        "base_offset",
        "is_used",
        "path",
    )

    def __init__(
        self,
        path: Path,
        base_offset: int,
        files: OpenFiles,
        handle: Handle | None = None,
        settings: EnvSettings | None = None,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.is_used = True
        self._files = files
        self._handle = handle
        self._settings = settings
        self._users = 0
        self._leases = 0
        self._map_bytes = self._used_bytes = 0
        self._is_growing = False
        self._retired = False
        self._lock = Lock()
        self._footprint: Footprint | None = None
        self._changed = Condition(self._lock)
        if handle is not None:
            self._note_map(handle)
            files.opened(self, self._descriptors)

    @property
    def _descriptors(self) -> int:
        return READER_FILES if self._settings is None else WRITER_FILES

    @property
    def is_open(self) -> bool:
        """True if the environment is open; without a pin another thread may close it at any time."""
        return self._handle is not None

    def pin(self) -> Handle:
        """Return the environment, opened if it was closed, and keep it open until `unpin`.

        Waits while it grows. Raises StoreCorruptError, lmdb.Error and OSError when it cannot be opened.
        """
        self.is_used = True
        with self._lock:
            while self._is_growing:
                self._changed.wait()
            if self._handle is not None:
                self._users += 1
                return self._handle
        return self._files.with_room(self._open_and_pin)

    def _open_and_pin(self) -> Handle:
        with self._lock:
            while self._is_growing:
                self._changed.wait()
            handle = self._handle or self._open()
            self._handle = handle
            self._users += 1
        self._files.opened(self, self._descriptors)
        return handle

    def _open(self) -> Handle:
        if self._retired:  # the path may belong to another segment now
            raise FileNotFoundError(errno.ENOENT, "the segment was deleted or replaced", str(self.path))
        footprint, settings = self._footprint, self._settings
        if footprint is not None:
            footprint.check()  # a `stat` instead of checking the pages
        if settings is None:
            handle = open_sealed_env(self.path) if footprint is None else open_doubtful_env(self.path)
        else:
            handle = open_env(self.path, settings) if footprint is None else reopen_env(self.path, settings)
        if footprint is None:
            self.watch()
        elif settings is not None:
            footprint.hold()
        self._note_map(handle)
        return handle

    def _note_map(self, handle: Handle) -> None:
        if self._settings is not None:
            info = handle.env.info()
            self._map_bytes = info["map_size"]
            self._used_bytes = info["last_pgno"] * _PAGE_BYTES

    def unpin(self) -> None:
        """End a `pin`."""
        with self._lock:
            self._end_use()

    def _end_use(self) -> None:
        self._users -= 1
        assert self._users >= 0
        if self._is_growing or self._retired:
            self._changed.notify_all()
        if self._retired:
            self._close_idle()

    def watch(self) -> None:
        """Detect from now on changes of the file at `path`, which has to be this segment's."""
        self._footprint = footprint = Footprint(self.path, self._files.watches)
        if self._settings is not None and self._handle is not None:
            footprint.hold()

    def check(self) -> None:
        """Raise StoreCorruptError if another program has changed the file: LMDB must not be called then."""
        if self._footprint is not None and not self._retired:
            self._footprint.check()

    def pin_to_write(self) -> Handle:
        """Do `pin` and `begin_write`; to be ended by `unpin_written`. Raises as `pin` does."""
        handle = self.pin()
        footprint = self._footprint
        if footprint is not None:
            footprint.begin_write()
        return handle

    def unpin_written(self) -> None:
        """End a `pin_to_write`, whether the write failed or not."""
        footprint = self._footprint
        if footprint is not None:
            self._used_bytes = footprint.end_write()
            if not FILES_GROW and self._handle is not None:
                self._used_bytes = self._handle.env.info()["last_pgno"] * _PAGE_BYTES
        with self._lock:
            self._end_use()

    def begin_write(self) -> None:
        """Announce that the writer changes the file other than in a transaction."""
        if self._footprint is not None:
            self._footprint.begin_write()

    def end_write(self) -> None:
        """End a `begin_write`, whether the write failed or not."""
        if self._footprint is not None:
            self._footprint.end_write()

    def may_lend(self, max_leases: int) -> bool:
        """Turn the caller's pin into a lease, to be ended by `take_back`. Returns False, and changes nothing, if pages
        may not be lent.
        """
        with self._lock:
            if self._leases >= max_leases or not self._lends or self._is_growing:
                return False
            self._leases += 1
            return True

    @property
    def _lends(self) -> bool:
        """True if the map is large enough, and far enough from having to grow, for clients to hold pages of it."""
        settings = self._settings
        if not MOVES_OPEN_FILES:
            return False
        if settings is None or self._map_bytes >= settings.full_map_bytes:
            return True
        return self._map_bytes >= settings.lending_map_bytes and self._used_bytes * 8 <= self._map_bytes * 5

    @property
    def _can_grow(self) -> bool:
        return self._settings is not None and self._map_bytes < self._settings.full_map_bytes

    def take_back(self) -> None:
        """End a lease, and its pin."""
        with self._lock:
            self._leases -= 1
            self._end_use()
        self._files.trim()

    def is_short_of_map(self, batch_bytes: int) -> bool:
        """True if the map should grow before `batch_bytes` are written. It grows when half of it is used, so that pages
        can nearly always be lent; while clients hold pages, not before three quarters are used.
        """
        used_bytes = self._used_bytes + batch_bytes * _SPACE_PERCENT // 100 + _ROW_BYTES  # inlined `_space_for`
        if used_bytes * 2 <= self._map_bytes or not self._can_grow:
            return False
        return not self._leases or used_bytes * 4 > self._map_bytes * 3

    def grow(self, batch_bytes: int) -> bool:
        """Enlarge the map, after waiting for reads in progress. For the writer, without a pin. Returns False, and
        changes nothing, if the map has its full size, clients hold pages, or the process cannot get the address space.
        Raises lmdb.Error and OSError if the environment cannot be reopened.
        """
        with self._lock:
            settings = self._settings
            if settings is None or not self._can_grow or self._leases:
                return False
            self._is_growing = True
            try:
                while self._users:
                    self._changed.wait()
                return self._map_more(settings, self._used_bytes + _space_for(batch_bytes))
            finally:
                self._is_growing = False
                self._changed.notify_all()

    def _map_more(self, settings: EnvSettings, space_bytes: int) -> bool:
        least = self._map_bytes * _GROWTH
        map_bytes = max(min(least, settings.full_map_bytes), _map_for(space_bytes, settings.full_map_bytes))
        self._close()
        try:
            self._settings = settings._replace(map_bytes=map_bytes)
            self._handle = self._open()
        except (lmdb.MemoryError, MemoryError):
            self._settings = settings
            self._handle = self._open()
            return False
        return True

    def seal(self) -> None:
        """End writing; from its next opening on the segment uses fewer descriptors."""
        with self._lock:
            self._settings = None
            self._close_idle()
        if not self.is_open:
            self._files.forget(self)

    def begin_move(self) -> None:
        """Announce that the segment is getting its name; others must not open it until `end_move`. Raises as `pin`."""
        if MOVES_OPEN_FILES:
            self.pin()
            return
        self._files.forget(self)
        with self._lock:
            self._is_growing = True
            while self._users:
                self._changed.wait()
            self._close()

    def end_move(self) -> None:
        """End a `begin_move`: the segment has its name, or is not used."""
        if MOVES_OPEN_FILES:
            self.unpin()
            return
        with self._lock:
            self._is_growing = False
            self._changed.notify_all()

    def rest(self) -> None:
        """Let its file be replaced by another: close it, if that is necessary. Its next use opens it again."""
        if not MOVES_OPEN_FILES:
            self.begin_move()
            self.end_move()

    def close_if_idle(self) -> bool:
        """Close the environment unless it is in use; return whether it is closed."""
        with self._lock:
            return not self._is_growing and self._close_idle()

    def retire(self) -> None:
        """Close it permanently once it has no users, because its file is to be removed or the log is being closed."""
        self._files.forget(self)
        with self._lock:
            self._retired = True
            while self._users and not MOVES_OPEN_FILES:
                self._changed.wait()
            self._close_idle()

    def _close_idle(self) -> bool:
        if self._users:
            return False
        self._close()
        return True

    def _close(self) -> None:
        if self._handle is not None:
            close_env(self._handle.env)
            self._handle = None
        if self._footprint is not None:
            self._footprint.let_go()
