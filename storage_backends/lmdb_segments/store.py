"""A directory of partitions (see `layout`), locked for one process."""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from threading import Lock
from typing import cast

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.directories import make_directory, sync_directory, write_durably
from odradek.storage_backends.interface import (
    LogPolicy,
    StoreCorruptError,
    StoreError,
    StoreFormatError,
    StoreSpace,
    StrayLog,
)
from odradek.storage_backends.lmdb_segments.advice import after_removal, in_shell
from odradek.storage_backends.lmdb_segments.context import FileRemover, StoreContext, purge
from odradek.storage_backends.lmdb_segments.errors import mapping_errors
from odradek.storage_backends.lmdb_segments.files import DirectoryLock
from odradek.storage_backends.lmdb_segments.layout import (
    DELETED_SUFFIX,
    FORMAT_FILE,
    FORMAT_NAME,
    FORMAT_VERSION,
    LOCK_FILE,
    NEW_SUFFIX,
    PROPERTIES_FILE,
    RESERVE_FILE,
    STRAY_SUFFIX,
    TOPIC_FILE,
    SegmentMeta,
    is_partition_name,
    is_shortened,
    is_stray,
    parse_partition_dir,
    partition_dirs,
    partition_path,
    segment_name,
    unsynced_name,
)
from odradek.storage_backends.lmdb_segments.meta_properties import FILE as META_FILE
from odradek.storage_backends.lmdb_segments.meta_properties import meta_properties
from odradek.storage_backends.lmdb_segments.open_files import OpenFiles, allowed_files
from odradek.storage_backends.lmdb_segments.partition import LmdbPartition
from odradek.storage_backends.lmdb_segments.recovery import OpenedLog, make_durable, open_log
from odradek.storage_backends.lmdb_segments.reserve import SpaceReserve
from odradek.storage_backends.lmdb_segments.segment import Segment, close_env, env_settings, growing, moved
from odradek.storage_backends.lmdb_segments.segment_log import make_segment
from odradek.storage_backends.lmdb_segments.tables import LogRows
from odradek.storage_backends.malloc import keep_buffers
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.system import boot_id, replace

_logger = logging.getLogger(__name__)

_MAX_FOREIGN = 1000
"""The number of foreign directories remembered, so that only one warning is logged for each."""


def open_lmdb_store(path: str, options: StoreOptions) -> "LmdbStore":
    """Open the store in the directory `path`, creating it if necessary.

    Raises StoreLockedError, StoreFormatError, StoreCorruptError, StoreError.
    """
    return LmdbStore(Path(path), options)


class LmdbStore:
    """A `Store`. Methods may be called from any thread."""

    def __init__(self, root: Path, options: StoreOptions) -> None:
        self._root = root
        keep_buffers()
        with mapping_errors(root, "opening"):
            if root.is_dir():
                _check_format(root)  # before the lock file is created, so that a refused directory is not changed
                _read_properties(root / PROPERTIES_FILE)
            make_directory(root)
            self._lock = DirectoryLock(root / LOCK_FILE)
            try:
                _check_format(root)
                _mark_format(root)
                _tidy(root)
                self._properties = _read_properties(root / PROPERTIES_FILE)
            except BaseException:
                self._lock.release()
                raise
        reserve = SpaceReserve(root / RESERVE_FILE)
        reserve.restore()
        open_files = OpenFiles(allowed_files(options.max_open_files))
        self._context = StoreContext(options, boot_id(), FileRemover(reserve), open_files, reserve)
        self._mutex = Lock()
        self._open: dict[PartitionKey, LmdbPartition | None] = {}
        self._in_doubt: dict[PartitionKey, SegmentMeta] = {}
        self._listed: tuple[PartitionKey, ...] | None = None
        self._seen: set[PartitionKey] = set()
        self._foreign: set[str] = set()
        self._closed = False

    def partitions(self) -> Sequence[PartitionKey]:
        """See `Store.partitions`."""
        with self._mutex:
            self._check_open()
            if self._listed is None:
                with mapping_errors(self._root, "listing"):
                    found = [self._parse(each) for each in partition_dirs(self._root)]
                self._listed = tuple(sorted([key for key in found if key is not None]))
            return self._listed

    def _parse(self, directory: Path) -> PartitionKey | None:
        """Return the partition of a directory; None, with one warning in the log, if it cannot be determined."""
        try:
            return parse_partition_dir(directory)
        except (ValueError, OSError) as error:
            if directory.name not in self._foreign and len(self._foreign) < _MAX_FOREIGN:
                self._foreign.add(directory.name)
                _logger.warning(
                    "%s is left alone, since its partition is unknown (%s): if it is not one of "
                    "Odradek's, move it elsewhere",
                    directory,
                    error,
                )
            return None

    def _list_again(self) -> None:
        """Clear the cached list of partitions, after one was added or removed. It is cached since retention and the
        cleaner read it often.
        """
        with self._mutex:
            self._listed = None

    def holds(self, key: PartitionKey) -> bool:
        """See `Store.holds`."""
        directory = partition_path(self._root, key)
        with mapping_errors(directory, "looking at"):
            return directory.exists()

    def open(self, key: PartitionKey, policy: LogPolicy) -> LmdbPartition:
        """See `Store.open`."""
        self._reserve(key)
        try:
            directory = partition_path(self._root, key)
            with mapping_errors(directory, "opening"):
                opened = self._context.open_files.with_room(lambda: self._find_or_create(key, directory, policy))
            partition = LmdbPartition(key, directory, policy, self._context, opened, self._closed_one)
        except BaseException:
            self._forget(key)
            raise
        with self._mutex:
            self._open[key] = partition
            self._seen.add(key)
        return partition

    def _find_or_create(self, key: PartitionKey, directory: Path, policy: LogPolicy) -> OpenedLog:
        if directory.exists():
            self._write_name_again(key, directory)
            return self._open_again(key, directory, policy)
        self._check_unseen(key, directory)
        return self._create(key, directory, policy)

    def _check_unseen(self, key: PartitionKey, directory: Path) -> None:
        """Refuse to create an empty log for a partition whose log this process has had open, so that its loss is
        noticed.
        """
        if key in self._seen:
            raise StoreCorruptError(
                f"{directory} was removed while the broker ran; {after_removal(directory, key.topic)}"
            )

    def _write_name_again(self, key: PartitionKey, directory: Path) -> None:
        """Rewrite the file with the full name of a long topic name if it is damaged; `key` has the name."""
        if is_shortened(key):
            try:
                if parse_partition_dir(directory) == key:
                    return
            except (ValueError, OSError) as error:
                _logger.warning("writing the file %r in %s again: %s", TOPIC_FILE, directory, error)
            write_durably(directory / TOPIC_FILE, key.topic.encode())
            self._list_again()

    def _reserve(self, key: PartitionKey) -> None:
        with self._mutex:
            self._check_open()
            if key in self._open:
                raise StoreError(f"the log of {key} is open already")
            self._open[key] = None

    def _open_again(self, key: PartitionKey, directory: Path, policy: LogPolicy) -> OpenedLog:
        """Open a log; if its last commit failed and was written nevertheless, make it durable."""
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
        """Create a partition's directory with one empty segment under another name, and rename it, so that it appears
        complete or not at all. The segment stays open, which the rename does not affect: this saves system calls, after
        each of which the thread has to wait for the interpreter lock, which takes long in a busy broker.
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
            handle = moved(handle, settings, draft, directory, directory / segment_name(0))
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
            directory = partition_path(self._root, key)
            with mapping_errors(directory, "deleting"):
                if directory.exists():
                    self._context.file_remover.remove(directory)
                    sync_directory(self._root)
                self._in_doubt.pop(key, None)
            self._seen.discard(key)
        finally:
            self._list_again()
            self._forget(key)

    def set_aside(self, key: PartitionKey) -> str:
        """See `Store.set_aside`: the directory's new name ends in `-stray`, as in Kafka."""
        self._reserve(key)
        directory = partition_path(self._root, key)
        try:
            with mapping_errors(directory, "setting aside"):
                aside = next(each for each in _stray_names(directory) if not each.exists())
                replace(directory, aside)
                sync_directory(self._root)
            self._seen.discard(key)
        finally:
            self._list_again()
            self._forget(key)
        return aside.name

    def strays(self) -> Sequence[StrayLog]:
        """See `Store.strays`."""
        with mapping_errors(self._root, "listing"):
            found = [(each.name, self._parse(each)) for each in self._root.iterdir() if is_stray(each)]
        return sorted([StrayLog(name, key) for name, key in found if key is not None], key=lambda each: each.key)

    def take_back(self, name: str) -> None:
        """See `Store.take_back`."""
        aside = self._stray_path(name)
        with mapping_errors(aside, "taking back"):
            try:
                key = parse_partition_dir(aside)
            except ValueError as error:
                raise StoreError(f"{aside}: {error}") from error
            self._reserve(key)
            try:
                directory = partition_path(self._root, key)
                if directory.exists():
                    raise StoreError(f"{aside} cannot be taken back: {directory} exists")
                replace(aside, directory)
                sync_directory(self._root)
            finally:
                self._list_again()
                self._forget(key)

    def delete_stray(self, name: str) -> None:
        """See `Store.delete_stray`."""
        aside = self._stray_path(name)
        with mapping_errors(aside, "deleting"):
            if aside.exists():
                self._context.file_remover.remove(aside)
                sync_directory(self._root)

    def _stray_path(self, name: str) -> Path:
        path = self._root / name
        if path.parent != self._root or not is_stray(path):
            raise StoreError(f"{path} is not the directory of a log that was set aside")
        return path

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
            before, self._properties = self._properties, merged
            meta, path = meta_properties(merged), self._root / META_FILE
            if meta is not None and (meta != meta_properties(before) or not path.exists()):
                write_durably(path, meta)

    def outbox(self) -> None:
        """See `Store.outbox`: none."""

    def close_idle(self) -> int:
        """See `Store.close_idle`."""
        self._context.reserve.restore()
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
            self._context.open_files.watches.close()
            self._context.file_remover.close()
            self._lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store in {self._root} is closed")


def _close_all(partitions: Sequence[LmdbPartition]) -> None:
    """Close all of them even if some fail; raises the first error."""
    failures: list[StoreError] = []
    for partition in partitions:
        try:
            partition.close()
        except StoreError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _stray_names(directory: Path) -> Iterator[Path]:
    """Yield the possible names of a directory that is set aside."""
    yield directory.with_name(directory.name + STRAY_SUFFIX)
    for number in count(2):
        yield directory.with_name(f"{directory.name}{STRAY_SUFFIX}{number}")


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
            f"use the version that wrote it, or another directory; {_format_again(path)}"
        )


def _mark_format(root: Path) -> None:
    if not (root / FORMAT_FILE).exists():
        write_durably(root / FORMAT_FILE, f"{FORMAT_NAME} {FORMAT_VERSION}\n".encode())


def _check_fresh(root: Path) -> None:
    ours = (LOCK_FILE, FORMAT_FILE + NEW_SUFFIX, "lost+found")
    foreign = sorted(entry.name for entry in root.iterdir() if entry.name not in ours)
    if any(_is_partition(root / name) for name in foreign):
        path = root / FORMAT_FILE
        raise StoreFormatError(
            f"{root} holds partitions and has no file {FORMAT_FILE!r}: restore it; {_format_again(path)}"
        )
    if foreign:
        raise StoreFormatError(
            f"{root} is not empty and has no file {FORMAT_FILE!r} (this version would write {FORMAT_NAME} "
            f"{FORMAT_VERSION}), so it is no store: it holds {', '.join(foreign[:3])}; use another directory"
        )


def _is_partition(directory: Path) -> bool:
    return is_partition_name(directory.name) and directory.is_dir()


def _format_again(path: Path) -> str:
    return (
        "if only that file was damaged or lost, and this version wrote the directory, write it again: "
        f"echo '{FORMAT_NAME} {FORMAT_VERSION}' > {in_shell(path)}"
    )


def _tidy(root: Path) -> None:
    for entry in list(root.iterdir()):
        if entry.suffix in (NEW_SUFFIX, DELETED_SUFFIX):
            purge(entry)


def _read_properties(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        found: object = json.loads(path.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("it holds no JSON object")  # noqa: TRY004, TRY301 - as json.loads raises for no JSON at all
    except ValueError as error:
        raise StoreCorruptError(
            f"{path} is not what was written ({error}). On a node that is not a controller, or is the only one of a "
            "fixed quorum, delete it: it is written again. On every other controller it has the vote and the directory "
            "id: do not delete it, nor restore an older copy, but replace the node (docs/cluster.md, Replace a dead "
            "node); only if there is no other controller, restore a copy"
        ) from error
    return cast("dict[str, str]", found)
