"""Recovers the valid part of a segment that was written without syncs before the operating system crashed or a sync
failed.

Without syncs a power cut may leave any mixture of old and new pages, which may crash LMDB. So another process
(`salvage_worker`) reads the log, checks every batch, and copies valid batches in order into a new segment; if a damaged
page kills the process, it is started again and stops before that offset.

Rows have no checksum, so those of the segment are not trusted, except for the log start. Epochs, aborted transactions
and producers' states are taken from the sealed segments, which are synced and have them as of their ends, and continued
with the batches that were copied. A transaction whose marker is lost is open again.
"""

import logging
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from odradek.partitions.model import AbortedTransaction
from odradek.storage_backends.directories import sync_directory
from odradek.storage_backends.interface import LogPolicy, SegmentInfo, StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.context import StoreContext
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
    LogDb,
    WriteTxn,
    close_env,
    create_env,
    draft_path,
    env_settings,
    open_env,
    reading_sealed,
)
from odradek.storage_backends.lmdb_segments.tables import (
    LogRows,
    alive,
    log_values,
    read_own_aborted,
    read_rows,
    replace_rows,
)
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.system import replace

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
        meta = _complete(handle, directory, base_offset, context.options)
    finally:
        close_env(handle.env)
    replace(draft, path)
    sync_directory(directory)
    (directory / unsynced_name(base_offset)).unlink()
    _logger.warning(
        "%s was written without flushes, and the operating system crashed or a flush failed: kept offsets %d to %d of "
        "it (%d bytes), what came after is lost; a transaction whose marker was there stays open until it is aborted "
        "(see odradek transactions find-hanging); set flush.messages=1 to rule this out",
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


def _complete(handle: Handle, directory: Path, base_offset: int, options: StoreOptions) -> SegmentMeta:
    """Add the rows that a segment has besides its batches, and the log start offset, to the new segment."""
    known, log_start_offset = _read_sealed(directory, base_offset)
    with handle.env.begin(write=True) as txn:
        _, meta = unpack_meta(txn.get(META_KEY, b""))
        assert meta is not None
        lowest = known.sealed[0].base_offset if known.sealed else base_offset
        start_offset = min(max(meta.log_start_offset, log_start_offset, lowest), meta.log_end_offset)
        meta = meta._replace(log_start_offset=start_offset)
        kept = _with_producers((txn, handle.log), known, meta.log_end_offset, options)
        kept = kept._replace(epochs=_joined(known.epochs, read_rows(txn).epochs))
        replace_rows(txn, alive(kept, start_offset))
        _put_meta(txn, meta)
    return meta


def _read_sealed(directory: Path, base_offset: int) -> tuple[LogRows, int]:
    """Return the rows as of the end of the sealed segments, and their highest log start offset.

    Each segment contributes the aborted transactions that end in it: the copies in later ones may have transactions
    whose markers compaction has removed. All other rows are those of the last one, but without an epoch that has no
    record in it, since a truncation to its end may have removed that epoch.
    """
    rows, log_start_offset = LogRows({}, {}, [], []), 0
    sealed: list[SegmentInfo] = []
    aborted: list[AbortedTransaction] = []
    bases = [base for base in segment_bases(directory) if base < base_offset]
    for base in bases:
        path = directory / segment_name(base)
        try:
            with reading_sealed(path) as (txn, meta):
                aborted += read_own_aborted(txn, base)
                if base == bases[-1]:
                    rows = read_rows(txn)
        except struct.error as error:
            raise StoreCorruptError(f"{path} has a row that cannot be read ({error}); {what_to_do(path)}") from error
        sealed.append(SegmentInfo(base, meta.log_end_offset, meta.size_bytes, meta.max_timestamp_ms, sealed=True))
        log_start_offset = max(log_start_offset, meta.log_start_offset)
    if not sealed or sealed[-1].end_offset < base_offset:
        return LogRows({}, {}, [], sealed), log_start_offset  # they are older than a restart of the log at base_offset
    epochs = {epoch: start for epoch, start in rows.epochs.items() if start < base_offset}
    return rows._replace(epochs=epochs, aborted=aborted, sealed=sealed), log_start_offset


def _joined(known: Mapping[int, int], found: Mapping[int, int]) -> dict[int, int]:
    """Return the epochs of the sealed segments, and those that begin in the batches after them."""
    latest = max(known, default=-1)
    return {**known, **{epoch: start for epoch, start in found.items() if epoch > latest}}


def _with_producers(tables: tuple[WriteTxn, LogDb], known: LogRows, end_offset: int, options: StoreOptions) -> LogRows:
    """Return the rows with the states of producers after the segment's batches, and the transactions these abort."""
    if options.producer_rebuilder is None:
        return known._replace(producers={})  # earlier states would refuse the producers' next batches
    try:
        rebuilder = options.producer_rebuilder({each: state for each, (_, state) in known.producers.items()})
    except ValueError as error:
        raise StoreCorruptError(f"the state of a producer cannot be read: {error}") from error
    for value in log_values(*tables):
        rebuilder.add(memoryview(value))
    producers = {each: (end_offset, state) for each, state in rebuilder.rows().items()}
    return known._replace(producers=producers, aborted=[*known.aborted, *rebuilder.aborted()])


def _put_meta(txn: WriteTxn, meta: SegmentMeta) -> None:
    txn.put(META_KEY, meta.pack())
