"""Transaction markers, which end a producer's transaction in one partition (KIP-98)."""

from typing import Final, NamedTuple

from odradek.coordinator.contract import Producer
from odradek.gateway.env.completion import DONE, Completion
from odradek.gateway.replication.replica import Replica
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

    def batch(self, now_ms: int) -> memoryview:
        """The control batch, to be appended to any number of logs."""
        batch = end_transaction_marker(
            committed=self.committed,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        return memoryview(batch)


def append_marker(replica: Replica, batch: memoryview, version: int) -> tuple[ErrorCode, Completion[None]]:
    """Append a marker's batch; it is committed when the completion settles without error.

    The error code is the log's refusal of an old epoch; nothing is appended then. The log must be open.
    Raises PartitionUnavailable.
    """
    result = replica.append(batch, AppendOrigin.COORDINATOR, transaction_version=version)
    if isinstance(result, Rejected):
        return result.error, DONE
    return ErrorCode.NONE, replica.committed(result.last_offset + 1)


async def write_marker(replica: Replica, marker: Marker, now_ms: int) -> ErrorCode:
    """Write a marker; committed on return. Raises PartitionUnavailable, StoreError."""
    await replica.ensure_open()
    error, committed = append_marker(replica, marker.batch(now_ms), marker.version)
    await committed.wait()
    return error
