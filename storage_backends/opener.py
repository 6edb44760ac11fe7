"""From a URL to a store: the only way to reach a concrete backend, which is imported when it is first asked for."""

from collections.abc import Callable
from importlib import import_module
from typing import cast
from urllib.parse import SplitResult, unquote, urlsplit

from odradek.storage_backends.interface import Store
from odradek.storage_backends.options import StoreOptions

__all__ = ["StoreOptions", "StoreUrlError", "open_store"]

_Factory = Callable[[str, StoreOptions], Store]

_BACKENDS = {
    "memory": "odradek.storage_backends.memory:open_memory_store",
    "lmdb": "odradek.storage_backends.lmdb_segments.store:open_lmdb_store",
}
_SQL_SCHEMES = ("sqlite", "postgresql")


class StoreUrlError(ValueError):
    """The storage URL names no store that this installation can open; the message says which ones it can."""


def open_store(url: str, options: StoreOptions | None = None) -> Store:
    """Open the store that `url` names, creating it where there is none.

    `memory://` is a new, empty store that goes with the process; `lmdb:///absolute/path` keeps its logs in that
    directory. Raises StoreUrlError, StoreLockedError, StoreFormatError, StoreError.
    """
    parts = urlsplit(url)
    return _factory(parts.scheme)(_path(url, parts), options or StoreOptions())


def _factory(scheme: str) -> _Factory:
    if scheme.split("+", maxsplit=1)[0] in _SQL_SCHEMES:
        raise StoreUrlError(
            f"storage scheme {scheme!r} belongs to the odradek[sql] extra, which has no backend in this version; "
            f"known here are {_known()}"
        )
    if scheme not in _BACKENDS:
        raise StoreUrlError(
            f"unknown storage scheme {scheme!r}; known are {_known()}; "
            f"{' and '.join(_SQL_SCHEMES)} will come with the odradek[sql] extra"
        )
    module, _, function = _BACKENDS[scheme].partition(":")
    return cast("_Factory", getattr(import_module(module), function))


def _path(url: str, parts: SplitResult) -> str:
    if parts.query or parts.fragment:
        raise StoreUrlError(f"storage URL {url!r} has a query or fragment, which mean nothing here")
    path = unquote(parts.path)
    if parts.scheme == "lmdb" and (parts.netloc or not path.startswith("/")):
        raise StoreUrlError(f"storage URL {url!r} needs an absolute path: lmdb:///var/lib/odradek")
    if parts.scheme == "memory" and (parts.netloc or path):
        raise StoreUrlError(f"storage URL {url!r}: a memory store has no name or path, write memory://")
    return path


def _known() -> str:
    return ", ".join(f"{scheme}://" for scheme in _BACKENDS)
