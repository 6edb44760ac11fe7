"""The options and services that the partitions of one open store share."""

import logging
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from odradek.storage_backends.lmdb_segments.layout import DELETED_SUFFIX
from odradek.storage_backends.lmdb_segments.open_files import OpenFiles
from odradek.storage_backends.lmdb_segments.reserve import SpaceReserve
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.system import replace
from odradek.wire.values import immutable

if TYPE_CHECKING:  # imported for type checking only, so that a broker starts faster
    from concurrent.futures import ThreadPoolExecutor

_logger = logging.getLogger(__name__)


class FileRemover:
    """Removes files and directories in a background thread, since unlinking a large file takes long. `remove` renames a
    file before it returns, so that its name is free and a restart after a crash does not use it again. After each
    removal the store's reserve is restored.
    """

    def __init__(self, reserve: SpaceReserve) -> None:
        self._reserve = reserve
        self._worker: ThreadPoolExecutor | None = None
        self._mutex = Lock()
        self._numbers: Iterator[int] = count()

    def remove(self, path: Path) -> None:
        """Rename `path`, and remove it later. Raises OSError when it cannot be renamed."""
        doomed = path.with_name(f"{path.name}.{next(self._numbers)}{DELETED_SUFFIX}")
        replace(path, doomed)
        try:
            self._started().submit(self._purge, doomed)
        except RuntimeError as error:  # a thread cannot be started
            _logger.warning("cannot remove %s now (%s); the next start tries again", doomed, error)

    def _purge(self, path: Path) -> None:
        try:
            purge(path)
        except OSError as error:
            _logger.warning("cannot remove %s now (%s); the next start tries again", path, error)
        self._reserve.restore()

    def close(self) -> None:
        """Wait for all removals."""
        if self._worker is not None:
            self._worker.shutdown()

    def _started(self) -> "ThreadPoolExecutor":
        from concurrent.futures import ThreadPoolExecutor

        with self._mutex:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="odradek-store-remover")
            return self._worker


def purge(path: Path) -> None:
    """Remove a file, or a directory with its contents. No error if another process removes it at the same time. Raises
    OSError.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@immutable
class StoreContext:
    """Options, and the services that all partitions use."""

    options: StoreOptions
    boot_id: str
    file_remover: FileRemover
    open_files: OpenFiles
    reserve: SpaceReserve
