"""Directories and files that are durable, with their names. All functions raise OSError."""

from pathlib import Path

from odradek.storage_backends.system import replace, sync_directory, sync_file

__all__ = ["make_directory", "sync_directory", "write_durably"]


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
        sync_file(file.fileno())
    replace(draft, path)
    sync_directory(path.parent)
