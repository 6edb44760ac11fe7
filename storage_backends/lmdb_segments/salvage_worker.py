"""The process that reads a possibly damaged segment: `python -m ... SEGMENT DRAFT BASE_OFFSET STOP_OFFSET`. It prints
the offset reached after every value, so that its parent has the offset at which it was killed.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb

from odradek.partitions.model import EpochStart, LogWrite, StoredBatch
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.lmdb_segments.layout import META_KEY, SegmentMeta, unpack_meta
from odradek.storage_backends.lmdb_segments.segment import Handle, WriteTxn, create_env, env_settings, open_doubtful_env
from odradek.storage_backends.lmdb_segments.tables import append_writes, log_values, read_gaps
from odradek.storage_backends.options import StoreOptions
from odradek.wire.records.batch import BatchHeader, batch_bytes, check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch

_COMMIT_BYTES = 32 * 1024 * 1024


def copy_valid(source: Path, draft: Path, base_offset: int, stop_offset: int) -> None:
    """Copy the batches of `source` that are valid, in order and below `stop_offset` into a new segment `draft`."""
    settings = env_settings(LogPolicy(), StoreOptions(), synced=False, need_bytes=source.stat().st_size)
    meta = SegmentMeta(base_offset, -1, base_offset)
    target = create_env(draft, settings, lambda txn, _: _put_meta(txn, meta))
    try:
        handle = open_doubtful_env(source)
    except lmdb.Error as error:
        sys.stderr.write(f"nothing can be read: {error}\n")
        return
    meta = meta._replace(log_start_offset=_log_start_offset(handle))
    for writes in _grouped(_writes(handle, base_offset, stop_offset)):
        with target.env.begin(write=True) as txn:
            meta = append_writes(txn, target.log, meta, writes, StoreOptions())
    with target.env.begin(write=True) as txn:
        _put_meta(txn, meta)
    target.env.sync(True)  # noqa: FBT003 - the binding's own parameter


def _put_meta(txn: WriteTxn, meta: SegmentMeta) -> None:
    txn.put(META_KEY, meta.pack())


def _log_start_offset(handle: Handle) -> int:
    with handle.env.begin() as txn:
        _, meta = unpack_meta(txn.get(META_KEY, b""))
    return meta.log_start_offset if meta else -1


def _writes(handle: Handle, base_offset: int, stop_offset: int) -> Iterator[LogWrite]:
    """Yield a write for each valid batch, with the start of its epoch if that is a new one."""
    leader_epoch = -1
    for header, data in _valid_batches(handle, base_offset, stop_offset):
        started = header.partition_leader_epoch > leader_epoch
        leader_epoch = max(leader_epoch, header.partition_leader_epoch)
        epochs = (EpochStart(leader_epoch, header.base_offset),) if started else ()
        yield LogWrite((StoredBatch(header.base_offset, header.last_offset, header.max_timestamp, data),), epochs)


def _valid_batches(handle: Handle, next_offset: int, stop_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches up to the first that is invalid or does not follow the one before. Beyond `stop_offset`, which
    is the end of a value, nothing is read: that has ended an earlier process.

    The copy of a compacted log has gaps between its batches, but lost pages leave gaps, too. So a gap is accepted only
    if there is a row that was written with it.
    """
    gaps = frozenset[tuple[int, int]]()
    try:
        with handle.env.begin() as txn:
            values = log_values(txn, handle.log)
            while next_offset < stop_offset and (value := next(values, None)) is not None:
                for header in iter_headers(value):
                    check_crc(value, header)
                    gap = (next_offset, header.base_offset)
                    if header.base_offset != next_offset and gap not in gaps:
                        gaps = read_gaps(txn, header.base_offset)
                        if gap not in gaps:
                            return
                    yield header, batch_bytes(value, header)
                    next_offset = header.next_offset
                sys.stdout.write(f"{next_offset}\n")
                sys.stdout.flush()
    except (InvalidRecordBatch, lmdb.Error) as error:
        sys.stderr.write(f"stopped at offset {next_offset}: {error}\n")


def _grouped(writes: Iterator[LogWrite]) -> Iterator[list[LogWrite]]:
    group: list[LogWrite] = []
    size_bytes = 0
    for write in writes:
        group.append(write)
        size_bytes += len(write.batches[0].data)
        if size_bytes >= _COMMIT_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


if __name__ == "__main__":
    copy_valid(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
