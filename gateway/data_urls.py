"""URLs of data directories: `lmdb:///var/lib/odradek`, on Windows `lmdb:///C:/odradek`."""

import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from pathlib import PurePath

LMDB: Final = "lmdb://"


def url_of_directory(directory: "PurePath") -> str:
    """The storage URL of an absolute path."""
    text = directory.as_posix()
    return f"{LMDB}{quote(text)}" if text.startswith("/") else f"{LMDB}/{quote(text, safe='/:')}"


def directory_of_url(url: str) -> str:
    """The path in an `lmdb` URL."""
    return local_path(unquote(url.removeprefix(LMDB)))


def local_path(path: str, *, has_drives: bool = sys.platform == "win32") -> str:
    """The path that a URL's path stands for: `/C:/data` is `C:/data` where paths have drives."""
    return path[1:] if has_drives and path[:1] == "/" and path[2:3] == ":" else path
