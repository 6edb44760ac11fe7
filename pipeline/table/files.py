"""The file system operations that a table needs, in one folder. Names are relative to it."""

import errno
import os
import shutil
import uuid
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from odradek.pipeline.errors import PipelineError

TEMPORARY: Final = ".new-"
"""The prefix of the names of unfinished files, which are not listed."""


class Files(Protocol):
    """The files of one table. Errors of the local file system are OSError, or PipelineError for a file in place of a
    folder and a file system without hard links; those of Hadoop are Py4JJavaError. A failed rename in Hadoop, in
    `create` or `move`, is PipelineError with Hadoop's message.
    """

    root: str
    """The folder's path for Spark."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names of a folder's entries, sorted; none if it does not exist."""
        ...

    def read(self, name: str) -> str:
        """Return the text of a file."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Atomically create a file with this text; return False, and change nothing, if it exists already.

        If two processes create the same name at once, one gets False. The file is durable on return.
        """
        ...

    def move(self, source: str, target: str) -> bool:
        """Rename a file to its final name, which `sync_names` makes durable; return False if it does not exist under
        its old one, as after an earlier call.
        """
        ...

    def exists(self, name: str) -> bool:
        """Return True if there is a file or a folder of this name."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with its contents; no error if there is none."""
        ...

    def sync(self, names: Collection[str]) -> None:
        """Make files written by Spark durable, if they are not yet, with their names and those of their folders."""
        ...

    def sync_names(self, names: Collection[str]) -> None:
        """Make the names of files and of their folders durable, if they are not yet."""
        ...


class LocalFiles:
    """A folder of this machine, or one mounted here."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.root = str(self._root)

    def names(self, folder: str = "") -> list[str]:
        """See Files."""
        try:
            return sorted(name for name in os.listdir(self._root / folder) if not name.startswith(TEMPORARY))  # noqa: PTH208 - one call
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise PipelineError(f"{self._root / folder} is a file, not a folder") from error

    def read(self, name: str) -> str:
        """See Files."""
        return (self._root / name).read_text(encoding="utf-8")

    def create(self, name: str, text: str) -> bool:
        """See Files. It uses a hard link, which fails if its name exists; a rename would replace the file."""
        target = self._root / name
        _make_folder(target.parent)
        temporary = target.with_name(f"{TEMPORARY}{uuid.uuid1().hex}")
        try:
            _write_durably(temporary, text)
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}:
                raise PipelineError(
                    f"{target.parent}: this file system has no hard links ({error.strerror})"
                ) from error
            raise
        finally:
            temporary.unlink(missing_ok=True)
        _sync(target.parent)
        return True

    def move(self, source: str, target: str) -> bool:
        """See Files."""
        (self._root / target).parent.mkdir(parents=True, exist_ok=True)
        try:
            (self._root / source).rename(self._root / target)
        except FileNotFoundError:
            return False
        return True

    def exists(self, name: str) -> bool:
        """See Files."""
        return (self._root / name).exists()

    def delete(self, name: str) -> None:
        """See Files. Another process may delete the same entry at the same time."""
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def sync(self, names: Collection[str]) -> None:
        """See Files."""
        for name in names:
            _sync(self._root / name)
        self.sync_names(names)

    def sync_names(self, names: Collection[str]) -> None:
        """See Files. Each folder is synced once."""
        for folder in dict.fromkeys(folder for name in names for folder in PurePosixPath(name).parents):
            _sync(self._root / folder)


def _make_folder(path: Path) -> None:
    """Create a folder and its missing parents, durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _sync(folder.parent)


def _write_durably(path: Path, text: str) -> None:
    with path.open("x") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def _sync(path: Path) -> None:
    """Make the contents of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
