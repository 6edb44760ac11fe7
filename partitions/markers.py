"""Decoding of the markers that end a producer's transaction in a partition (KIP-98)."""

from odradek.partitions.producers import EndTxnMarker
from odradek.wire.records.batch import BatchHeader
from odradek.wire.records.reader import ControlType, read_control_marker


def read_end_txn_marker(records: memoryview, header: BatchHeader) -> EndTxnMarker | None:
    """Decode a control batch; None when it is not a transaction marker, or compaction has emptied it.

    Raises odradek.wire.records.errors.CorruptBatch.
    """
    if header.record_count == 0:
        return None
    control = read_control_marker(records, header)
    if control.coordinator_epoch is None:
        return None
    is_abort = control.type is ControlType.ABORT
    return EndTxnMarker(control.coordinator_epoch, is_abort, control.timestamp_ms)
