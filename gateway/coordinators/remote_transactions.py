"""A transaction's requests to other brokers: markers for partitions that they lead, and requests to coordinators.

Markers for one broker go in one request: those that come while a request is in flight go with the next one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from odradek.gateway.coordinators.brokers import OtherBrokers
from odradek.gateway.coordinators.markers import Marker
from odradek.gateway.env.completion import Completion
from odradek.gateway.errors import CoordinatorUnavailable, received_error
from odradek.gateway.peers import PeerCallError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from odradek.coordinator.transactions.add import ProducerIdentity
    from odradek.coordinator.transactions.table import Partitions

MARKERS_VERSION: Final = 2
ADD_PARTITIONS_VERSION: Final = 5
MARKERS_AT_ONCE: Final = 500
"""The maximum number of partitions in one request."""

_TopicPartition = tuple[str, int]
_Waiting = tuple[Marker, _TopicPartition, Completion[ErrorCode]]


class RemoteMarkers:
    """Writes markers into partitions that other brokers lead; its tasks run in `nursery`."""

    def __init__(self, brokers: OtherBrokers, nursery: trio.Nursery) -> None:
        self._brokers = brokers
        self._nursery = nursery
        self._waiting: dict[int, list[_Waiting]] = {}

    async def write(self, leader_id: int, marker: Marker, topic_partition: _TopicPartition) -> ErrorCode:
        """The leader's result for one partition. Raises PeerCallError."""
        answered: Completion[ErrorCode] = Completion()
        waiting = self._waiting.get(leader_id)
        if waiting is None:
            self._waiting[leader_id] = [(marker, topic_partition, answered)]
            self._nursery.start_soon(self._send_all, leader_id)
        else:
            waiting.append((marker, topic_partition, answered))
        return await answered.wait()

    async def _send_all(self, leader_id: int) -> None:
        """Send until no marker waits for this leader."""
        while waiting := self._waiting[leader_id]:
            sent, self._waiting[leader_id] = waiting[:MARKERS_AT_ONCE], waiting[MARKERS_AT_ONCE:]
            try:
                response = await self._brokers.call(leader_id, _request(sent), MARKERS_VERSION)
                assert isinstance(response, WriteTxnMarkersResponse)
                answers = _answers(response)
            except PeerCallError as error:
                for _, _, answered in sent:
                    answered.fail(error)
                continue
            for marker, topic_partition, answered in sent:
                answered.settle(
                    answers.get((marker.producer.producer_id, *topic_partition), ErrorCode.UNKNOWN_SERVER_ERROR)
                )
        del self._waiting[leader_id]


def _request(waiting: Sequence[_Waiting]) -> WriteTxnMarkersRequest:
    by_marker: dict[Marker, dict[str, list[int]]] = {}
    for marker, (topic, index), _ in waiting:
        by_marker.setdefault(marker, {}).setdefault(topic, []).append(index)
    markers = [
        WritableTxnMarker(
            producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.producer_epoch,
            transaction_result=marker.committed,
            topics=tuple(
                [WritableTxnMarkerTopic(name=name, partition_indexes=tuple(each)) for name, each in topics.items()]
            ),
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.version,
        )
        for marker, topics in by_marker.items()
    ]
    return WriteTxnMarkersRequest(markers=tuple(markers))


def _answers(response: WriteTxnMarkersResponse) -> Mapping[tuple[int, str, int], ErrorCode]:
    return {
        (marker.producer_id, topic.name, part.partition_index): received_error(part.error_code)
        for marker in response.markers
        for topic in marker.topics
        for part in topic.partitions
    }


async def ask_coordinator(
    brokers: OtherBrokers,
    leader_id: int,
    producer: "ProducerIdentity",
    partitions: "Partitions",
    *,
    verify_only: bool,
) -> Mapping[_TopicPartition, ErrorCode]:
    """Ask the coordinator on another broker to verify that the partitions are in the transaction, or to add them.

    Raises CoordinatorUnavailable if there is no response, or if it is an error for the whole request.
    """
    from odradek.wire.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    topics = [AddPartitionsToTxnTopic(name=name, partitions=tuple(sorted(each))) for name, each in partitions.items()]
    asked = AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=tuple(topics),
    )
    request = AddPartitionsToTxnRequest(transactions=(asked,))
    try:
        response = await brokers.call(leader_id, request, ADD_PARTITIONS_VERSION)
    except PeerCallError as error:
        raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
    assert isinstance(response, AddPartitionsToTxnResponse)
    if response.error_code:
        raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    codes = {
        (topic.name, part.partition_index): received_error(part.partition_error_code)
        for answered in response.results_by_transaction
        for topic in answered.topic_results
        for part in topic.results_by_partition
    }
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return {(topic, index): codes.get((topic, index), missing) for topic, each in partitions.items() for index in each}
