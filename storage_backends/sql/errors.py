"""Maps foreign errors to StoreError."""

import errno

from sqlalchemy import exc

from odradek.storage_backends.interface import REPLACE_NODE, DiskFullError, StoreCorruptError, StoreError

ForeignError = (exc.SQLAlchemyError, OSError)
"""The exceptions of SQLAlchemy and the operating system; catch them and raise the result of `mapped`."""

_FULL_SQLITE = ("SQLITE_FULL",)
_FULL_POSTGRESQL = ("53100", "53400")
_CORRUPT_SQLITE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_CORRUPT_POSTGRESQL = ("XX001", "XX002")
_RESTORE = f"in a cluster of one node, restore the database from a backup; in a cluster of several, {REPLACE_NODE}"


def mapped(error: Exception, location: str, doing: str) -> StoreError:
    """Return the StoreError for a foreign error that was raised while `doing` something in the database at
    `location`.
    """
    where = f"{doing} in {location}: "
    code = _code(error)
    if code in _FULL_SQLITE or code in _FULL_POSTGRESQL or _is_full(error):
        return DiskFullError(f"{where}no space is left: free space, or lower retention.bytes or retention.ms")
    if code in _CORRUPT_SQLITE or code in _CORRUPT_POSTGRESQL:
        return StoreCorruptError(f"{where}{_text(error)}; {_RESTORE}")
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return StoreError(f"{where}the database is away ({_text(error)}); it is used again when it is back")
    return StoreError(f"{where}{_text(error)}")


def _code(error: Exception) -> str:
    """Return SQLite's name of the error, or PostgreSQL's SQLSTATE."""
    origin = getattr(error, "orig", None)
    return str(getattr(origin, "sqlite_errorname", None) or getattr(origin, "sqlstate", None) or "")


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}


def _text(error: Exception) -> str:
    origin = getattr(error, "orig", None) or error
    return " ".join(str(origin).split())
