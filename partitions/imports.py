"""Batches of another log, appended to this one at their original offsets (ImportBatches).

Batches are stored byte for byte: values, codec, timestamps, producer, checksum. Only the leader epoch, which the
checksum does not cover, is set to this leader's. Offsets may have gaps, like those of a compacted log, but never go
below the log end, so batches that are sent again are refused instead of duplicated.

Checked is what a broker can check without decoding records: format, checksum, codec, and the order of offsets. Not
checked are the topic's limits on size and time and the keys of a compacted topic: another broker has accepted the
records under its own settings, and a follower does not check these either. Producer sequences are not checked, since
compaction leaves gaps in them. Transactions are tracked, for read_committed readers.

A transaction that is open when the leader changes is continued by the new leader, which has recorded its batches as a
follower and does not know whether a client wrote them. It is taken for an imported one if an imported batch continues
it exactly, with the same producer epoch and the next sequence, or if a marker of its epoch or a later one ends it.
Transactions to which a client has written in the leader's own epoch are known not to be imported. So a client's
transaction is joined or ended by mistake only if its leader has changed since its last batch, and if the same id was
assigned in both clusters, with the same epoch and sequence at that moment or, for a marker, an epoch that is not later.
After a gap in the sequences, which compaction may leave, the import is refused until the transaction is aborted.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.partitions.config import LogConfig
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import AbortedTransaction, LogWrite, StoredBatch
from odradek.partitions.producers import EndTxnMarker
from odradek.partitions.results import Appended, Rejected
from odradek.partitions.state import PartitionState
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import BatchHeader, Codec, assign_offsets, check_crc, increment_sequence, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch, UnsupportedMagic

MAX_BATCHES: Final = 500
"""The maximum number of batches in one write, which take a few milliseconds."""
MAX_BYTES: Final = 1 << 20
"""The maximum size of a write, unless a single batch is larger: segments roll between writes."""
_LAST_OFFSET: Final = 2**62
_FAR: Final = 2**48


class ImportedBatch(NamedTuple):
    """A batch of the request's records, and its transaction marker if it is one."""

    header: BatchHeader
    marker: EndTxnMarker | None


def read_imported_batches(records: memoryview, config: LogConfig) -> list[ImportedBatch] | Rejected:
    """Parse and check the batches of a request without decoding records. They must be whole, and at least one."""
    batches: list[ImportedBatch] = []
    next_offset = 0
    try:
        for header in iter_headers(records):
            refusal = _check_header(header, next_offset, config)
            if refusal is not None:
                return refusal
            check_crc(records, header)
            batches.append(ImportedBatch(header, read_end_txn_marker(records, header) if header.is_control else None))
            next_offset = header.next_offset
    except UnsupportedMagic as error:
        return Rejected(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error))
    except InvalidRecordBatch as error:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, str(error))
    return batches or Rejected(ErrorCode.INVALID_RECORD, "there is no record batch")


def _check_header(header: BatchHeader, next_offset: int, config: LogConfig) -> Rejected | None:
    """Check offsets, counts, codec and size."""
    base_offset, delta, count = header.base_offset, header.last_offset_delta, header.record_count
    if base_offset < next_offset:
        message = f"a batch begins at offset {base_offset} behind one that ends at {next_offset - 1}"
        return Rejected(ErrorCode.INVALID_RECORD, message)
    if header.last_offset > _LAST_OFFSET:
        message = (
            f"the batch at offset {base_offset} ends at {header.last_offset}; the largest offset is {_LAST_OFFSET}"
        )
        return Rejected(ErrorCode.INVALID_RECORD, message)
    # Compaction leaves fewer records than offsets, and keeps a producer's last batch even without records.
    if delta < 0 or not 0 <= count <= delta + 1:
        message = f"the batch at offset {base_offset} declares {count} records, and {delta} as its last offset delta"
        return Rejected(ErrorCode.INVALID_RECORD, message)
    if header.codec > Codec.ZSTD:
        return Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {header.codec}")
    if header.size_bytes > config.segment_bytes:
        message = f"the batch of {header.size_bytes} bytes exceeds segment.bytes={config.segment_bytes}"
        return Rejected(ErrorCode.RECORD_LIST_TOO_LARGE, message)
    return None


def largest_producer_id(batches: Sequence[ImportedBatch]) -> int:
    """Returns the largest producer id of the batches, -1 when none has one."""
    return max(batch.header.producer_id for batch in batches)


def check_not_far(batches: Sequence[ImportedBatch]) -> Rejected | None:
    """Refuse offsets and producer ids that no log of a client comes near, with POLICY_VIOLATION.

    The log could take few or no batches after them, and the cluster assign no more producer ids.
    """
    offset, producer_id = batches[-1].header.last_offset, largest_producer_id(batches)
    if offset < _FAR and producer_id < _FAR:
        return None
    what = f"offset {offset}" if offset >= _FAR else f"producer id {producer_id}"
    message = f"the batches have the {what}, which needs odradek.import.far.enable=true on the broker"
    return Rejected(ErrorCode.POLICY_VIOLATION, message)


def in_writes(batches: Sequence[ImportedBatch], segment_bytes: int) -> Iterator[Sequence[ImportedBatch]]:
    """Yield the batches in groups, each to be written together."""
    limit_bytes = min(segment_bytes, MAX_BYTES)
    begin, size_bytes = 0, 0
    for at, (header, _) in enumerate(batches):
        if at > begin and (size_bytes + header.size_bytes > limit_bytes or at - begin == MAX_BATCHES):
            yield batches[begin:at]
            begin, size_bytes = at, 0
        size_bytes += header.size_bytes
    if begin < len(batches):
        yield batches[begin:]


def take_imported(state: PartitionState, records: memoryview, batches: Sequence[ImportedBatch]) -> Appended | Rejected:
    """Append batches that `read_imported_batches` has accepted, all or none, as the leader.

    `records` are patched in place as by `Leader.append`. OFFSET_OUT_OF_RANGE when they begin below the log end;
    INVALID_TXN_STATE when they would become part of a local producer's transaction.
    """
    refusal = _check_offsets(state, batches)
    if refusal is not None:
        return refusal
    stored: list[StoredBatch] = []
    producers: dict[int, bytes | None] = {}
    aborted: list[AbortedTransaction] = []
    for header, marker in batches:
        base_offset, last_offset = header.base_offset, header.last_offset
        parts = assign_offsets(records, base_offset, state.leader_epoch, header)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        stored.append(StoredBatch(base_offset, last_offset, header.max_timestamp, data))
        if marker is not None:
            row, ended = state.producer_states.end_imported(header, base_offset, marker)
            producers |= row
            aborted.extend(state.note_aborted(ended))
        elif _is_in_transaction(header):
            producers |= state.producer_states.add_imported(header, base_offset)
        state.log_end_offset = last_offset + 1
    write = LogWrite(stored, (), producers, aborted, replicated=True)
    return Appended(stored[0].base_offset, state.log_end_offset - 1, -1, write)


def _check_offsets(state: PartitionState, batches: Sequence[ImportedBatch]) -> Rejected | None:
    first_offset, end_offset = batches[0].header.base_offset, state.log_end_offset
    if first_offset < end_offset:
        message = f"the batches begin at offset {first_offset}, and the log ends at {end_offset} already"
        return Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)
    checked: set[int] = set()
    for header, marker in batches:
        # A producer's later batches are in the transaction of its first one, or in one that the import has begun.
        if header.producer_id not in checked and (marker is not None or _is_in_transaction(header)):
            refusal = state.producer_states.check_imported(header)
            if refusal is not None and not _continues(state, header):
                return refusal
            checked.add(header.producer_id)
    return None


def _continues(state: PartitionState, header: BatchHeader) -> bool:
    """True if a batch or marker continues the producer's open transaction, which an earlier leader has written."""
    entry = state.producers[header.producer_id]
    if state.epochs.epoch_of(entry.last_offset) >= state.leader_epoch:
        return False
    if header.is_control:
        return header.producer_epoch >= entry.producer_epoch
    is_next = header.base_sequence == increment_sequence(entry.last_sequence, 1)
    return is_next and header.producer_epoch == entry.producer_epoch


def _is_in_transaction(header: BatchHeader) -> bool:
    return header.is_transactional and header.has_producer_id and not header.is_control
