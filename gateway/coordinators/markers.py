"""Transaction markers, which end a producer's transaction in one partition (KIP-98)."""

from typing import Final, NamedTuple

from odradek.coordinator.contract import Producer
from odradek.gateway.env.completion import DONE, Completion
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.replica import Replica
from odradek.partitions.producers import EndTxnMarker
from odradek.partitions.results import AppendOrigin, Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.records.builder import end_transaction_marker

MARKER_REFUSED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""The partition has a later epoch of the producer or of its coordinator. This coordinator does not retry the marker."""


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


class BegunMarker(NamedTuple):
    """A marker that is appended; it is committed when `committed` settles without error.

    `error` is the log's refusal of an old epoch; nothing is appended then.
    """

    error: ErrorCode
    committed: Completion[None]


def append_marker(replica: Replica, marker: EncodedMarker) -> BegunMarker:
    """Append a marker to a log, which must be open.

    Raises PartitionUnavailable, with NOT_ENOUGH_REPLICAS while too few replicas are in sync, as in Kafka: nothing is
    appended then, since the marker could not be committed.
    """
    result = replica.append(marker.records, AppendOrigin.COORDINATOR, marker=marker.contents, all_in_sync=True)
    if not isinstance(result, Rejected):
        return BegunMarker(ErrorCode.NONE, replica.committed(result.last_offset + 1))
    if result.error is ErrorCode.NOT_ENOUGH_REPLICAS:
        raise PartitionUnavailable(result.error, replica.key)
    return BegunMarker(result.error, DONE)
