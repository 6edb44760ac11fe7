"""Translation of errors of LMDB and the operating system to StoreError, at the backend's boundary."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from odradek.storage_backends.interface import (
    DiskFullError,
    StoreCorruptError,
    StoreError,
    StoreExhaustedError,
    StoreFormatError,
    StoreFullError,
)
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.layout import SEGMENT_SUFFIX
from odradek.storage_backends.system import allocate
from odradek.wire.records.errors import InvalidRecordBatch

ForeignError = (lmdb.Error, OSError, MemoryError, InvalidRecordBatch)
"""The exceptions of LMDB, of the operating system and of damaged batches; catch them and raise the result of `mapped`.
"""

_FULL = {
    errno.ENOSPC: "the file system is full: free space on it, lower retention.bytes or retention.ms, or add a disk",
    errno.EDQUOT: "the disk quota is used up: raise it, or lower retention.bytes or retention.ms",
    errno.EFBIG: "the file size limit is reached: raise it (ulimit -f), or lower segment.bytes",
}
_CORRUPT = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, InvalidRecordBatch)
_FORMAT = (lmdb.VersionMismatchError, lmdb.IncompatibleError)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)


def mapped(error: Exception, path: Path, doing: str) -> StoreError:
    """Return the StoreError for a foreign error that was raised while `doing` something to `path`."""
    code = _code_of(error)
    where = f"{doing} {path}: "
    if code in _FULL:
        return DiskFullError(where + _FULL[code])
    if isinstance(error, lmdb.MapFullError):
        return StoreFullError(where + "one write is larger than the segment's map: raise segment.bytes")
    if isinstance(error, _FORMAT):
        return StoreFormatError(f"{where}{error}; this version reads LMDB {'.'.join(map(str, lmdb.version()))} files")
    if isinstance(error, _CORRUPT):
        return StoreCorruptError(f"{where}{error}; {what_to_do(path)}")
    if isinstance(error, lmdb.PanicError):
        return StoreError(f"{where}an earlier error left the segment unusable; reopen the partition ({error})")
    if code == errno.ENOENT and path.suffix == SEGMENT_SUFFIX:
        return StoreCorruptError(f"{where}the file is missing; {what_to_do(path)}")
    if code in _FORBIDDEN:
        return StoreError(f"{where}{error}: give the user that runs the broker read and write access")
    if code in _TOO_MANY_FILES:
        return StoreExhaustedError(
            f"{where}too many open files: raise the limit (ulimit -n, LimitNOFILE), or lower max.connections or "
            "odradek.log.max.open.files"
        )
    if code == errno.ENOMEM or isinstance(error, (MemoryError, lmdb.MemoryError)):
        return StoreExhaustedError(
            f"{where}no memory can be mapped: raise the limits (ulimit -v, vm.max_map_count), or lower "
            "segment.bytes or odradek.log.max.open.files"
        )
    return StoreError(where + str(error))


def _code_of(error: Exception) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    return getattr(error, "code", None)


def mapped_commit(error: Exception, path: Path, size_bytes: int) -> StoreError:
    """Return the StoreError for a failed commit of `size_bytes` to a segment. LMDB reports EIO for a partial write,
    which also happens when space runs out; so this tries to allocate the space.
    """
    if isinstance(error, lmdb.Error) and _code_of(error) == errno.EIO:
        refusal = _try_to_reserve(path, size_bytes)
        if refusal is not None:
            return mapped(refusal, path, "writing")
    return mapped(error, path, "writing")


def is_full(error: Exception, path: Path, size_bytes: int) -> bool:
    """True if a commit of `size_bytes` to the segment at `path` failed because no space is left for any log."""
    return isinstance(mapped_commit(error, path, size_bytes), DiskFullError)


def _try_to_reserve(path: Path, size_bytes: int) -> OSError | None:
    """Allocate space after the file's end and release it; no transaction uses pages there yet."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError as error:
        return error
    try:
        end = os.fstat(fd).st_size
        allocate(fd, end, size_bytes + 65536)
        os.ftruncate(fd, end)
    except OSError as error:
        return error if error.errno in _FULL else None
    finally:
        os.close(fd)
    return None


@contextmanager
def mapping_errors(path: Path, doing: str) -> Generator[None]:
    """Map exceptions raised in the block. Hot paths catch `ForeignError` themselves instead, which is faster."""
    try:
        yield
    except ForeignError as error:
        raise mapped(error, path, doing) from error
