"""Opens stores by URL, the only way to reach a concrete backend. Backends are imported at first use."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, cast
from urllib.parse import SplitResult, unquote, urlsplit

from odradek.storage_backends.interface import Store
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.urls import masked_url

if TYPE_CHECKING:  # imported for type checking only, so that a broker starts faster
    from odradek.storage_backends.beside import Backfill, LogsBeside

__all__ = ["StoreOptions", "StoreUrlError", "open_backfill", "open_beside", "open_store"]

_Factory = Callable[[str, StoreOptions], Store]
_Viewer = Callable[[str], "LogsBeside"]
_Backfiller = Callable[[str], "Backfill"]

_BACKENDS = {
    "memory": "odradek.storage_backends.memory:open_memory_store",
    "lmdb": "odradek.storage_backends.lmdb_segments.store:open_lmdb_store",
}
_SQL_BACKEND = "odradek.storage_backends.sql.store:open_sql_store"
_LMDB_VIEWER = "odradek.storage_backends.lmdb_segments.beside:open_lmdb_beside"
_SQL_VIEWER = "odradek.storage_backends.sql.beside:open_sql_beside"
_SQL_BACKFILL = "odradek.storage_backends.sql.columns.backfill:SqlBackfill"
_SQL_SCHEMES = ("sqlite", "postgresql+psycopg")
_IS_WINDOWS = sys.platform == "win32"


class StoreUrlError(ValueError):
    """This installation cannot open the store of the URL; the message lists the URLs that it can open."""


def open_store(url: str, options: StoreOptions | None = None) -> Store:
    """Open the store at `url`, creating it if there is none. `memory://` is a new, empty store that ends with the
    process; `lmdb:///absolute/path` keeps its logs in that directory, `sqlite:///absolute/file` and
    `postgresql+psycopg://user@host/database` in a database. Raises StoreUrlError, StoreLockedError, StoreFormatError,
    StoreError.
    """
    parts = urlsplit(url)
    if parts.scheme in _SQL_SCHEMES:
        factory = cast("_Factory", _of_extra(parts.scheme, _SQL_BACKEND))
        return factory(_checked_sql(url, parts), options or StoreOptions())
    return _factory(parts.scheme)(_path(url, parts), options or StoreOptions())


def open_beside(url: str) -> "LogsBeside":
    """Open the logs of the store at `url` for reading, while a broker may be writing them. Raises StoreUrlError, also
    for a store in the memory of another process, StoreFormatError if there is no store of this version, StoreError.
    """
    parts = urlsplit(url)
    if parts.scheme in _SQL_SCHEMES:
        return cast("_Viewer", _of_extra(parts.scheme, _SQL_VIEWER))(_checked_sql(url, parts))
    if parts.scheme == "memory":
        raise StoreUrlError("a memory store is the broker's own: what is in it can be read by Kafka's protocol only")
    _factory(parts.scheme)
    return cast("_Viewer", _imported(_LMDB_VIEWER))(_path(url, parts))


def open_backfill(url: str) -> "Backfill":
    """Open a database to add the rows of older records. Raises StoreUrlError for other stores, StoreError."""
    parts = urlsplit(url)
    if parts.scheme not in _SQL_SCHEMES:
        raise StoreUrlError(f"only a SQL database keeps records as rows, and {masked_url(url)} is none")
    return cast("_Backfiller", _of_extra(parts.scheme, _SQL_BACKFILL))(_checked_sql(url, parts))


def _factory(scheme: str) -> _Factory:
    if scheme not in _BACKENDS:
        raise StoreUrlError(f"unknown storage scheme {scheme!r}; known are {_known()}")
    return cast("_Factory", _imported(_BACKENDS[scheme]))


def _of_extra(scheme: str, path: str) -> object:
    try:
        return _imported(path)
    except ModuleNotFoundError as error:
        raise StoreUrlError(f"storage in {scheme}:// needs {error.name}: pip install 'odradek[sql]'") from error


def _imported(path: str) -> object:
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


def _checked_sql(url: str, parts: SplitResult) -> str:
    """Return the URL for SQLAlchemy, in which an absolute path has four slashes (`sqlite:////file`); here
    `sqlite:///file` is allowed, too.
    """
    if parts.scheme != "sqlite":
        if not parts.path.strip("/"):
            raise StoreUrlError(
                f"storage URL {masked_url(url)!r} names no database: postgresql+psycopg://user@host/database"
            )
        _check_address(url, parts)
        return url
    path = absolute_path(parts)
    if path is None or len(path) < 2 or parts.query or parts.fragment:
        raise StoreUrlError(
            f"storage URL {masked_url(url)!r} needs the absolute path of a file: sqlite:///var/lib/odradek.db"
        )
    return f"sqlite:///{path}" if _IS_WINDOWS else f"sqlite:////{path.lstrip('/')}"


def absolute_path(parts: SplitResult, *, is_windows: bool = _IS_WINDOWS) -> str | None:
    """Return the absolute path in a URL, None if there is none. On Windows it begins with a drive: `scheme:///C:/data`,
    or as quoting a path with its backslashes makes it, `scheme://C%3A%5Cdata`.
    """
    if is_windows:
        path = unquote(parts.netloc + parts.path).lstrip("/")
        return path if PureWindowsPath(path).is_absolute() else None
    path = unquote(parts.path)
    return None if parts.netloc or not path.startswith("/") else path


def _check_address(url: str, parts: SplitResult) -> None:
    if parts.netloc.count("@") > 1:
        raise StoreUrlError(f"storage URL {masked_url(url)!r}: write %40 for each @ in the password")
    try:
        _ = parts.port
    except ValueError as error:
        raise StoreUrlError(
            f"storage URL {masked_url(url)!r}: its port is not a number from 0 to 65535: "
            "postgresql+psycopg://user@host:5432/database"
        ) from error


def _path(url: str, parts: SplitResult) -> str:
    if parts.query or parts.fragment:
        raise StoreUrlError(f"storage URL {masked_url(url)!r} has a query or fragment, which mean nothing here")
    if parts.scheme == "memory":
        if parts.netloc or parts.path:
            raise StoreUrlError(f"storage URL {masked_url(url)!r}: a memory store has no name or path, write memory://")
        return ""
    path = absolute_path(parts)
    if path is None:
        raise StoreUrlError(f"storage URL {masked_url(url)!r} needs an absolute path: lmdb:///var/lib/odradek")
    return path


def _known() -> str:
    return ", ".join(f"{scheme}://" for scheme in (*_BACKENDS, *_SQL_SCHEMES))
