"""One segment's file and its open LMDB environment: creating, opening, lending and closing it.

LMDB allows one environment per file and process, so whoever needs it shares it: `pin` and `unpin` count the users, and
nothing that someone still reads is closed. LMDB's own lock file is unlinked as soon as it is open: the store's lock
keeps other writers away, and other readers open sealed segments without one. The reader table in it stays mapped, so
pages under a lease are not reused. Its blocks are reserved beforehand: LMDB would leave holes in it, and touching one
of those on a full disk kills the process (SIGBUS).
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

import lmdb
from lmdb import _Database  # pyright: ignore[reportPrivateUsage]

from storage_backends.interface import LogPolicy
from storage_backends.lmdb_segments.footprint import Footprint
from storage_backends.lmdb_segments.inspection import check_file
from storage_backends.lmdb_segments.layout import LOG_DB, NEW_SUFFIX
from storage_backends.options import StoreOptions

LogDb = _Database
WriteTxn: TypeAlias = "lmdb.Transaction[bytes]"
Fill = Callable[[WriteTxn, LogDb], None]

_SPARE_READ_TXNS = 8
_TRANSIENT_READERS = 40  # slots for reads that are under way, beside those for leases
_READER_SLOT_BYTES = 64
_SPACE_PERCENT = 220  # pages over bytes of batches at the worst: values just above a page take two

_registry_lock = Lock()
"""The binding knows open environments by inode and forgets one after its files are closed: without this, a new file
could get the inode of one that is just being closed, and be taken for it."""


class Handle(NamedTuple):
    """An open environment and its log database."""

    env: lmdb.Environment
    log: LogDb


class EnvSettings(NamedTuple):
    """How to open an environment for writing. `synced` is LMDB's default mode, in which every commit is durable."""

    map_bytes: int
    synced: bool
    max_readers: int


def env_settings(policy: LogPolicy, options: StoreOptions, *, synced: bool, need_bytes: int = 0) -> EnvSettings:
    """Size the map so that a segment of that policy, or one write of `need_bytes`, never fills it.

    The map is address space, not memory or disk. It is never grown, since that asks for no reader to be active.
    """
    payload = max(policy.segment_bytes, need_bytes)
    map_bytes = payload * _SPACE_PERCENT // 100 + options.map_slack_bytes
    return EnvSettings(_whole_pages(map_bytes), synced, options.max_leases_per_segment + _TRANSIENT_READERS)


def _whole_pages(size_bytes: int) -> int:
    return (size_bytes + 0xFFFF) & ~0xFFFF


def _open_env(path: Path, settings: EnvSettings) -> lmdb.Environment:
    lock_path = path.with_name(path.name + "-lock")
    try:
        _reserve_lock_file(lock_path, settings.max_readers)
        with _registry_lock:
            return lmdb.open(
                str(path),
                subdir=False,
                map_size=settings.map_bytes,
                sync=settings.synced,
                max_dbs=2,
                max_readers=settings.max_readers,
                max_spare_txns=_SPARE_READ_TXNS,
            )
    finally:
        lock_path.unlink(missing_ok=True)


def _reserve_lock_file(path: Path, max_readers: int) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(fd, 0, (max_readers + 4) * _READER_SLOT_BYTES)
    finally:
        os.close(fd)


def create_env(path: Path, settings: EnvSettings, fill: Fill) -> Handle:
    """Make a segment at `path`, filled by `fill` in its first transaction; on return it is synced.

    What stood at `path` is replaced. The name is not synced yet. Raises lmdb.Error and OSError, leaving nothing.
    """
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
    room = _whole_pages(path.stat().st_size * 2)
    env = _open_env(path, settings._replace(map_bytes=max(settings.map_bytes, room)))
    return _with_log(env)


def open_sealed_env(path: Path) -> Handle:
    """Open a segment that nobody writes to, as any process may. Raises StoreCorruptError, lmdb.Error, OSError."""
    check_file(path)  # a missing file is an OSError, and is not made
    return open_doubtful_env(path)


def open_doubtful_env(path: Path) -> Handle:
    """Do the same without a look at the file before, which may end the process. Raises lmdb.Error, OSError."""
    path.stat()
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
    """Close an environment that nobody uses."""
    with _registry_lock:
        env.close()


def _with_log(env: lmdb.Environment) -> Handle:
    try:
        return Handle(env, env.open_db(LOG_DB, create=False))
    except BaseException:
        close_env(env)
        raise


def draft_path(path: Path) -> Path:
    """Return where a segment is made before it is moved to `path`."""
    return path.with_name(path.name + NEW_SUFFIX)


class Segment:
    """A segment of an open log. All methods may be called from any thread."""

    __slots__ = ("_footprint", "_handle", "_lock", "_retired", "_users", "base_offset", "path")

    def __init__(self, path: Path, base_offset: int, handle: Handle | None = None) -> None:
        self.path = path
        self.base_offset = base_offset
        self._handle = handle
        self._users = 0
        self._retired = False
        self._lock = Lock()
        self._footprint: Footprint | None = None

    @property
    def users(self) -> int:
        """How many pins there are."""
        return self._users

    def pin(self) -> Handle:
        """Return the environment, opened read-only if it was closed, and keep it open until `unpin`.

        Raises StoreCorruptError, lmdb.Error and OSError when it cannot be opened.
        """
        with self._lock:
            if self._handle is None:
                if self._retired:  # what stands at the path by now is another segment, or none
                    raise FileNotFoundError(errno.ENOENT, "the segment was deleted or replaced", str(self.path))
                self._handle = open_sealed_env(self.path)
                self.watch()
            self._users += 1
            return self._handle

    def unpin(self) -> None:
        """End a `pin`."""
        with self._lock:
            self._users -= 1
            assert self._users >= 0
            if self._retired:
                self._close_idle()

    def watch(self) -> None:
        """Notice from now on when the file at `path`, which must be this segment's, is changed."""
        self._footprint = Footprint(self.path)

    def check(self) -> None:
        """Raise StoreCorruptError when another program has changed the file: LMDB must not be asked then."""
        if self._footprint is not None and not self._retired:
            self._footprint.check()

    def begin_write(self) -> None:
        """The file is about to be changed by its writer."""
        if self._footprint is not None:
            self._footprint.begin_write()

    def end_write(self) -> None:
        """End a `begin_write`, whether the write failed or not."""
        if self._footprint is not None:
            self._footprint.end_write()

    def close_if_idle(self) -> bool:
        """Close the environment unless someone uses it; return whether it is closed."""
        with self._lock:
            return self._close_idle()

    def retire(self) -> None:
        """Close it as soon as nobody uses it, for good: its file is going away, or the log is being closed."""
        with self._lock:
            self._retired = True
            self._close_idle()

    def _close_idle(self) -> bool:
        if self._users:
            return False
        if self._handle is not None:
            close_env(self._handle.env)
            self._handle = None
        return True
