"""Transaction markers, which end a producer's transaction in one partition (KIP-98)."""

from typing import Final, NamedTuple

from odradek.coordinator.contract import Producer
from odradek.gateway.env.completion import DONE, Completion
from odradek.gateway.replication.replica import Replica
from odradek.partitions.producers import EndTxnMarker
from odradek.partitions.results import AppendOrigin, Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.records.builder import end_transaction_marker

MARKER_DONE: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""Results after which a marker is not retried: it is written, or no part of the transaction is open there."""


class Marker(NamedTuple):
    """The end of a producer's transaction; `version` is the `transaction.version` that it follows."""

    producer: Producer
    committed: bool
    coordinator_epoch: int
    version: int

    def encoded(self, now_ms: int) -> "EncodedMarker":
        """The marker's batch, to be appended to any number of logs."""
        batch = end_transaction_marker(
            committed=self.committed,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        contents = EndTxnMarker(self.coordinator_epoch, not self.committed, now_ms, self.version)
        return EncodedMarker(memoryview(batch), contents)


class EncodedMarker(NamedTuple):
    """A marker's control batch, and what it contains."""

    records: memoryview
    contents: EndTxnMarker


def append_marker(replica: Replica, marker: EncodedMarker) -> tuple[ErrorCode, Completion[None]]:
    """Append a marker; it is committed when the completion settles without error.

    The error code is the log's refusal of an old epoch; nothing is appended then. The log must be open.
    Raises PartitionUnavailable.
    """
    result = replica.append(marker.records, AppendOrigin.COORDINATOR, marker=marker.contents)
    if isinstance(result, Rejected):
        return result.error, DONE
    return ErrorCode.NONE, replica.committed(result.last_offset + 1)


async def write_marker(replica: Replica, marker: Marker, now_ms: int) -> ErrorCode:
    """Write a marker; committed on return. Raises PartitionUnavailable, StoreError."""
    await replica.ensure_open()
    error, committed = append_marker(replica, marker.encoded(now_ms))
    await committed.wait()
    return error
