"""Windows' rule about open files, on Linux: neither a file that is open nor a directory with one in it can be renamed,
replaced or removed. And LMDB's way with files there: they have the size of their maps.

Descriptors for reading count only if the file is mapped: `system.open_to_read` opens files so that others may rename
and remove them, and a test's own copies are not meant.
"""

import errno
import inspect
import os
from pathlib import Path

from odradek.storage_backends.lmdb_segments import segment

PASSED_OVER = {"pathlib", "shutil", "contextlib", __name__}


class OpenFilesStay:
    """Refuses what Windows refuses, to callers in the stores' own modules; `refused` are the calls."""

    def __init__(self, monkeypatch):
        self.refused = []
        for name in ("rename", "replace", "unlink", "remove"):
            monkeypatch.setattr(os, name, self._checked(name, getattr(os, name)))

    def _checked(self, name, call):
        def checked(*paths, **named):
            if named.get("dir_fd") is None and of_a_store(inspect.currentframe()):
                for path in paths:
                    if is_open(path):
                        self.refused.append((name, *map(str, paths)))
                        raise PermissionError(errno.EACCES, "it is open", str(path))
            return call(*paths, **named)

        return checked


def of_a_store(frame):
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in PASSED_OVER:
        frame = frame.f_back
    name = "" if frame is None else frame.f_globals.get("__name__", "")
    return name.startswith("odradek.storage_backends.") and ".testing." not in name


def is_open(path):
    if Path(path).is_symlink():
        return False
    at = os.path.realpath(path)
    return any(each == at or each.startswith(at + "/") for each in open_paths())


def open_paths():
    for fd in Path("/proc/self/fd").iterdir():
        try:
            link, info = str(fd.readlink()), Path("/proc/self/fdinfo", fd.name).read_text()
        except FileNotFoundError:
            continue
        flags = int(next(line for line in info.splitlines() if line.startswith("flags:")).split()[1], 8)
        if flags & os.O_ACCMODE != os.O_RDONLY:
            yield link
    for line in Path("/proc/self/maps").read_text().splitlines():
        *_, path = line.split(maxsplit=5)
        yield path


def map_sized_files(monkeypatch):
    """Give each environment that is opened for writing a file of the size of its map."""
    opened = segment.lmdb.open

    def open_with_map(path, **settings):
        env = opened(path, **settings)
        if not settings.get("readonly"):
            os.truncate(path, env.info()["map_size"])
        return env

    monkeypatch.setattr(segment.lmdb, "open", open_with_map)
