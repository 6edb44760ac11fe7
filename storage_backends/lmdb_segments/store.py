"""A directory of partitions (see `layout`), locked for one process."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import cast

from storage_backends.interface import LogPolicy, StoreCorruptError, StoreError, StoreFormatError, StoreSpace
from storage_backends.lmdb_segments.context import Janitor, StoreContext, purge
from storage_backends.lmdb_segments.errors import mapping_errors
from storage_backends.lmdb_segments.files import DirectoryLock, boot_id, sync_directory, write_durably
from storage_backends.lmdb_segments.layout import (
    DELETED_SUFFIX,
    FORMAT_FILE,
    FORMAT_NAME,
    FORMAT_VERSION,
    LOCK_FILE,
    NEW_SUFFIX,
    PROPERTIES_FILE,
    TOPIC_FILE,
    SegmentMeta,
    is_shortened,
    parse_partition_dir,
    partition_dir_name,
    partition_dirs,
    segment_name,
    unsynced_name,
)
from storage_backends.lmdb_segments.malloc import keep_environments_small
from storage_backends.lmdb_segments.open_files import OpenFiles, allowed_files
from storage_backends.lmdb_segments.partition import LmdbPartition
from storage_backends.lmdb_segments.recovery import OpenedLog, make_durable, open_log
from storage_backends.lmdb_segments.segment import Segment, close_env, env_settings, growing
from storage_backends.lmdb_segments.segment_log import make_segment
from storage_backends.lmdb_segments.tables import LogRows
from storage_backends.options import StoreOptions
from wire.log_values import PartitionKey


def open_lmdb_store(path: str, options: StoreOptions) -> "LmdbStore":
    """Open the store in the directory `path`, making it where there is none.

    Raises StoreLockedError, StoreFormatError, StoreCorruptError, StoreError.
    """
    return LmdbStore(Path(path), options)


class LmdbStore:
    """A `Store`. Methods may be called from any thread."""

    def __init__(self, root: Path, options: StoreOptions) -> None:
        self._root = root
        keep_environments_small()
        with mapping_errors(root, "opening"):
            if root.is_dir():
                _check_format(root)  # before the lock is made: a directory that is refused stays as it was
                _read_properties(root / PROPERTIES_FILE)
            root.mkdir(parents=True, exist_ok=True)
            self._lock = DirectoryLock(root / LOCK_FILE)
            try:
                _check_format(root)
                _mark_format(root)
                _tidy(root)
                self._properties = _read_properties(root / PROPERTIES_FILE)
            except BaseException:
                self._lock.release()
                raise
        open_files = OpenFiles(allowed_files(options.max_open_files))
        self._context = StoreContext(options, boot_id(), Janitor(), open_files)
        self._mutex = Lock()
        self._open: dict[PartitionKey, LmdbPartition | None] = {}
        self._in_doubt: dict[PartitionKey, SegmentMeta] = {}
        self._listed: tuple[PartitionKey, ...] | None = None
        self._closed = False

    def partitions(self) -> Sequence[PartitionKey]:
        """See `Store.partitions`."""
        with self._mutex:
            self._check_open()
            if self._listed is None:
                with mapping_errors(self._root, "listing"):
                    self._listed = tuple(sorted(_parse(directory) for directory in partition_dirs(self._root)))
            return self._listed

    def _list_again(self) -> None:
        """To be called after a partition came or went: retention and the cleaner ask often, and little changes."""
        with self._mutex:
            self._listed = None

    def open(self, key: PartitionKey, policy: LogPolicy) -> LmdbPartition:
        """See `Store.open`."""
        self._reserve(key)
        try:
            directory = self._root / partition_dir_name(key)
            with mapping_errors(directory, "opening"):
                opened = self._context.open_files.with_room(lambda: self._find_or_create(key, directory, policy))
            partition = LmdbPartition(key, directory, policy, self._context, opened, self._closed_one)
        except BaseException:
            self._forget(key)
            raise
        with self._mutex:
            self._open[key] = partition
        return partition

    def _find_or_create(self, key: PartitionKey, directory: Path, policy: LogPolicy) -> OpenedLog:
        if directory.exists():
            return self._open_again(key, directory, policy)
        return self._create(key, directory, policy)

    def _reserve(self, key: PartitionKey) -> None:
        with self._mutex:
            self._check_open()
            if key in self._open:
                raise StoreError(f"the log of {key} is open already")
            self._open[key] = None

    def _open_again(self, key: PartitionKey, directory: Path, policy: LogPolicy) -> OpenedLog:
        """Open a log; when its last writer failed, and more than it knew to be there is, make that durable first."""
        opened = open_log(directory, policy, self._context)
        known = self._in_doubt.get(key)
        if known not in (None, opened.meta):
            try:
                make_durable(opened, directory)
            except BaseException:
                opened.active.retire()
                raise
        self._in_doubt.pop(key, None)
        return opened

    def _closed_one(self, key: PartitionKey, in_doubt: SegmentMeta | None) -> None:
        if in_doubt is not None:
            self._in_doubt[key] = in_doubt
        self._forget(key)

    def _forget(self, key: PartitionKey) -> None:
        with self._mutex:
            self._open.pop(key, None)

    def _create(self, key: PartitionKey, directory: Path, policy: LogPolicy) -> OpenedLog:
        """Make a partition with one empty segment under another name, and rename it: it is there whole or not.

        The segment stays open: a rename does not concern who has the file. Each further call that Python makes to the
        system costs a wait for the interpreter, long beside a busy broker.
        """
        draft = directory.with_name(directory.name + NEW_SUFFIX)
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir()
        if is_shortened(key):
            write_durably(draft / TOPIC_FILE, key.topic.encode())
        settings = growing(env_settings(policy, self._context.options, synced=policy.durable))
        meta = SegmentMeta(0, 0, 0)
        handle = make_segment(draft / segment_name(0), settings, meta, LogRows({}, {}, [], []))
        try:
            if not policy.durable:
                write_durably(draft / unsynced_name(0), self._context.boot_id.encode())
            sync_directory(draft)
            draft.rename(directory)
            sync_directory(self._root)
        except BaseException:
            close_env(handle.env)
            raise
        finally:
            self._list_again()
        active = Segment(directory / segment_name(0), 0, self._context.open_files, handle, settings)
        active.watch()
        return OpenedLog(active, policy.durable, meta, ())

    def delete(self, key: PartitionKey) -> None:
        """See `Store.delete`."""
        self._reserve(key)
        try:
            directory = self._root / partition_dir_name(key)
            with mapping_errors(directory, "deleting"):
                if directory.exists():
                    self._context.janitor.remove(directory)
                    sync_directory(self._root)
                self._in_doubt.pop(key, None)
        finally:
            self._list_again()
            self._forget(key)

    def space(self) -> StoreSpace:
        """See `Store.space`: of the file system under the directory."""
        with mapping_errors(self._root, "looking at"):
            space = shutil.disk_usage(self._root)
        return StoreSpace(str(self._root), space.total, space.free)

    def properties(self) -> Mapping[str, str]:
        """See `Store.properties`."""
        return dict(self._properties)

    def set_properties(self, values: Mapping[str, str]) -> None:
        """See `Store.set_properties`."""
        with self._mutex, mapping_errors(self._root, "writing"):
            self._check_open()
            merged = {**self._properties, **values}
            text = json.dumps(merged, indent=1, sort_keys=True)
            write_durably(self._root / PROPERTIES_FILE, text.encode())
            self._properties = merged

    def close_idle(self) -> int:
        """See `Store.close_idle`."""
        return self._context.open_files.close_idle()

    def close(self) -> None:
        """See `Store.close`."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            partitions = [each for each in self._open.values() if each is not None]
        try:
            _close_all(partitions)
        finally:
            self._context.janitor.close()
            self._lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store in {self._root} is closed")


def _close_all(partitions: Sequence[LmdbPartition]) -> None:
    """Close every one even if some fail; the first failure is raised."""
    failures: list[StoreError] = []
    for partition in partitions:
        try:
            partition.close()
        except StoreError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _parse(directory: Path) -> PartitionKey:
    try:
        return parse_partition_dir(directory)
    except ValueError as error:
        raise StoreCorruptError(f"{directory} is no partition's directory ({error}): move it elsewhere") from error


def _check_format(root: Path) -> None:
    """Refuse a directory written by another version, or by another program; changes nothing."""
    path = root / FORMAT_FILE
    if not path.exists():
        _check_fresh(root)
        return
    name, _, version = path.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
    if (name, version) != (FORMAT_NAME, str(FORMAT_VERSION)):
        raise StoreFormatError(
            f"{root} has store format {f'{name} {version}'[:60]!r}; this version knows {FORMAT_NAME} {FORMAT_VERSION}: "
            "use the version that wrote it, or another directory"
        )


def _mark_format(root: Path) -> None:
    if not (root / FORMAT_FILE).exists():
        write_durably(root / FORMAT_FILE, f"{FORMAT_NAME} {FORMAT_VERSION}\n".encode())


def _check_fresh(root: Path) -> None:
    ours = (LOCK_FILE, FORMAT_FILE + NEW_SUFFIX, "lost+found")
    foreign = sorted(entry.name for entry in root.iterdir() if entry.name not in ours)
    if foreign:
        raise StoreFormatError(
            f"{root} is not empty and has no file {FORMAT_FILE!r} (this version would write {FORMAT_NAME} "
            f"{FORMAT_VERSION}), so it is no store: it holds {', '.join(foreign[:3])}; use another directory"
        )


def _tidy(root: Path) -> None:
    for entry in list(root.iterdir()):
        if entry.suffix in (NEW_SUFFIX, DELETED_SUFFIX):
            purge(entry)


def _read_properties(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        return cast("dict[str, str]", json.loads(path.read_bytes()))
    except ValueError as error:
        raise StoreCorruptError(f"{path} is not what was written ({error}): restore it") from error
