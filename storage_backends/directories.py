"""Directories and files that are durable, with their names. All functions raise OSError."""

import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Create a directory, and those above it that are missing, with durable names."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_directory(each.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file's content atomically and durably: after a crash it is the old or the new one."""
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)
