"""Recovers the valid part of a segment that was written without syncs before an operating-system crash.

Without syncs a power cut may leave any mixture of old and new pages, which may crash LMDB. So another process
(`salvage_worker`) reads the log, checks every batch, and copies valid batches in order into a new segment; if a damaged
page kills the process, it is started again and stops before that offset. Rows without a checksum are not trusted:
leader epochs are taken from the batches; producer state and aborted transactions start empty.
"""

import logging
import subprocess
import sys
from pathlib import Path

from odradek.storage_backends.interface import LogPolicy, SegmentInfo, StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.context import StoreContext
from odradek.storage_backends.lmdb_segments.files import sync_directory
from odradek.storage_backends.lmdb_segments.layout import (
    META_KEY,
    SegmentMeta,
    segment_bases,
    segment_name,
    unpack_meta,
    unsynced_name,
)
from odradek.storage_backends.lmdb_segments.segment import (
    Handle,
    WriteTxn,
    close_env,
    create_env,
    draft_path,
    env_settings,
    open_env,
    open_sealed_env,
)
from odradek.storage_backends.lmdb_segments.tables import LogRows, put_rows

_logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_NO_LIMIT = 2**63 - 1


def salvage_segment(directory: Path, base_offset: int, context: StoreContext) -> None:
    """Replace the segment by one with the valid beginning of its log, and log a warning about the loss. Raises
    StoreCorruptError if an older segment is damaged too, and foreign errors.
    """
    path = directory / segment_name(base_offset)
    draft = draft_path(path)
    settings = env_settings(LogPolicy(), context.options, synced=True, need_bytes=path.stat().st_size)
    if not _copy_valid(path, draft, base_offset):
        nothing = SegmentMeta(base_offset, -1, base_offset)
        close_env(create_env(draft, settings, lambda txn, _: _put_meta(txn, nothing)).env)
    handle = open_env(draft, settings)
    try:
        meta = _complete(handle, directory, base_offset)
    finally:
        close_env(handle.env)
    draft.replace(path)
    sync_directory(directory)
    (directory / unsynced_name(base_offset)).unlink()
    _logger.warning(
        "%s was written without flushes when the operating system crashed: kept offsets %d to %d of it (%d bytes), "
        "what came after is lost, and so is the state of idempotent producers; set flush.messages=1 to rule this out",
        path,
        base_offset,
        meta.log_end_offset,
        meta.size_bytes,
    )


def _copy_valid(path: Path, draft: Path, base_offset: int) -> bool:
    """Run the worker until it succeeds, at most `_ATTEMPTS` times; return whether it has succeeded."""
    limit = _NO_LIMIT
    for _ in range(_ATTEMPTS):
        draft.unlink(missing_ok=True)
        command = [sys.executable, "-m", "odradek.storage_backends.lmdb_segments.salvage_worker"]
        command += [str(path), str(draft), str(base_offset), str(limit)]
        worker = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if not worker.returncode:
            return True
        reached = worker.stdout.split()
        _logger.warning("salvaging %s stopped at %s: %s", path, reached[-1:], worker.stderr[-500:])
        limit = int(reached[-1]) if reached else base_offset
    return False


def _complete(handle: Handle, directory: Path, base_offset: int) -> SegmentMeta:
    """Add the list of sealed segments and the log start offset, read from the sealed segments, to the new segment."""
    sealed, log_start_offset = _read_sealed(directory, base_offset)
    with handle.env.begin(write=True) as txn:
        _, meta = unpack_meta(txn.get(META_KEY, b""))
        assert meta is not None
        lowest = sealed[0].base_offset if sealed else base_offset
        start_offset = min(max(meta.log_start_offset, log_start_offset, lowest), meta.log_end_offset)
        meta = meta._replace(log_start_offset=start_offset)
        kept = [info for info in sealed if info.end_offset > start_offset]
        put_rows(txn, LogRows({}, {}, [], kept))
        _put_meta(txn, meta)
    return meta


def _read_sealed(directory: Path, base_offset: int) -> tuple[list[SegmentInfo], int]:
    sealed: list[SegmentInfo] = []
    log_start_offset = 0
    for base in segment_bases(directory):
        if base >= base_offset:
            break
        path = directory / segment_name(base)
        handle = open_sealed_env(path)
        try:
            meta = _read_meta(handle, path)
        finally:
            close_env(handle.env)
        sealed.append(SegmentInfo(base, meta.log_end_offset, meta.size_bytes, meta.max_timestamp_ms, sealed=True))
        log_start_offset = max(log_start_offset, meta.log_start_offset)
    return sealed, log_start_offset


def _read_meta(handle: Handle, path: Path) -> SegmentMeta:
    with handle.env.begin() as txn:
        _, meta = unpack_meta(txn.get(META_KEY, b""))
    if meta is None:
        raise StoreCorruptError(f"{path} has no meta row; {what_to_do(path)}")
    return meta


def _put_meta(txn: WriteTxn, meta: SegmentMeta) -> None:
    txn.put(META_KEY, meta.pack())
