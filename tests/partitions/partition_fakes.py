"""Batches as clients build them, and a store that applies the writes of a log."""

from collections.abc import Sequence

from odradek.partitions.config import LogConfig
from odradek.partitions.leader import Leader, lead
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import AbortedTransaction, EpochStart, LogSnapshot, LogWrite, StoredBatch
from odradek.partitions.producers import EndTxnMarker
from odradek.partitions.results import Appended, AppendOrigin, Duplicate, Rejected
from odradek.partitions.state import PartitionState
from odradek.wire.records.batch import crc32c, parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker

NOW_MS = 1_700_000_000_000


def data_batch(
    count: int = 1,
    *,
    timestamps: Sequence[int] | None = None,
    keys: Sequence[bytes | None] | None = None,
    value: bytes = b"v",
    **fields,
) -> memoryview:
    times = [NOW_MS] * count if timestamps is None else timestamps
    names = [b"k"] * len(times) if keys is None else keys
    records = [SimpleRecord(key, value, time) for key, time in zip(names, times, strict=True)]
    return memoryview(bytearray(build_batch(records, **fields)))


def of_producer(producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, **fields) -> memoryview:
    return data_batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def end_marker(
    producer_id: int, *, committed: bool, epoch: int = 0, coordinator_epoch: int = 0, timestamp_ms: int = NOW_MS
) -> memoryview:
    marker = end_transaction_marker(
        committed=committed, producer_id=producer_id, producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch, timestamp_ms=timestamp_ms,
    )  # fmt: skip
    return memoryview(bytearray(marker))


def marker_of(records: memoryview, version: int) -> EndTxnMarker | None:
    """The contents of a marker's batch, of a transaction of this version."""
    marker = read_end_txn_marker(records, parse_header(records))
    return marker and marker._replace(transaction_version=version)


def patched(batch: memoryview, at: int, value: int, size: int, *, fix_crc: bool = True) -> memoryview:
    """The batch with one header field overwritten; the checksum is recomputed if `fix_crc`."""
    batch[at : at + size] = value.to_bytes(size, "big", signed=value < 0)
    if fix_crc:
        batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return batch


class StoredLog:
    """A store that keeps every write and returns what is left, independent of the logic under test."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.batches: list[StoredBatch] = []
        self.epochs: dict[int, EpochStart] = {}
        self.producers: dict[int, bytes] = {}
        self.aborted: list[AbortedTransaction] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def commit(self, write: LogWrite) -> None:
        for batch in write.batches:
            assert batch.base_offset >= self.end_offset
            self.batches.append(batch)
        self.epochs.update({entry.leader_epoch: entry for entry in write.epochs})
        for producer_id, row in write.producers.items():
            if row is None:
                self.producers.pop(producer_id, None)
            else:
                self.producers[producer_id] = row
        self.aborted.extend(write.aborted)
        if write.log_start_offset is not None:
            self.log_start_offset = max(self.log_start_offset, write.log_start_offset)

    def load(self) -> LogSnapshot:
        return LogSnapshot(
            log_start_offset=self.log_start_offset,
            log_end_offset=max(self.end_offset, self.log_start_offset),
            max_timestamp_ms=max((batch.max_timestamp_ms for batch in self.batches), default=-1),
            epochs=list(self.epochs.values()),
            producers=dict(self.producers),
            aborted=list(self.aborted),
        )


class Partition:
    """A leader and its store. Writes commit at once by default."""

    leader: Leader

    def __init__(self, config: LogConfig | None = None, *, epoch: int = 0) -> None:
        self.store = StoredLog()
        self.log = PartitionState.restore(LogSnapshot(), config or LogConfig())
        self.lead(epoch)

    def lead(self, epoch: int) -> None:
        self.leader, write = lead(self.log, epoch)
        self.keep(write)

    def keep(self, write: LogWrite | None) -> None:
        if write is not None:
            self.store.commit(write)

    def append(
        self, records: memoryview, origin: AppendOrigin = AppendOrigin.CLIENT, *, commit: bool = True, **more
    ) -> Appended | Duplicate | Rejected:
        result = self.leader.append(records, origin=origin, **{"now_ms": NOW_MS, **more})
        if isinstance(result, Appended):
            self.keep(result.write)
            if commit:
                self.leader.durable(result.last_offset + 1)
        return result

    def mark(self, records: memoryview, version: int = 0, **more) -> Appended | Duplicate | Rejected:
        return self.append(records, AppendOrigin.COORDINATOR, marker=marker_of(records, version), **more)

    def restored(self) -> Leader:
        """The leader after a restart, in the same epoch."""
        state = PartitionState.restore(self.store.load(), self.log.config)
        return lead(state, max(state.leader_epoch, 0))[0]
