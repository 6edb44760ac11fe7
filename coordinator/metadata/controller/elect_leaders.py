"""ElectLeaders (KIP-460): preferred leader elections, and unclean elections for leaderless partitions."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.broker_changes import may_lead_now
from odradek.coordinator.metadata.controller.partition_change import Election, MayLead, Wanted, change_partition
from odradek.coordinator.metadata.controller.replication_settings import replication_settings
from odradek.coordinator.metadata.image.image import NO_LEADER, PartitionImage, TopicImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import PartitionChangeRecord


class ElectionType(IntEnum):
    """The kind of election, numbered as in the request."""

    PREFERRED = 0
    UNCLEAN = 1


_ELECTIONS: Final = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.UNCLEAN}
_NOT_NEEDED: Final = RefusedError(ErrorCode.ELECTION_NOT_NEEDED, "The partition has the leader that it would get.")


def elect_leaders(context: DecisionContext, request: ElectLeadersRequest) -> tuple[list[Message], ElectLeadersResponse]:
    """Decide on each partition independently; if all are requested, only those that need an election are returned."""
    asked = request.topic_partitions
    if asked is not None and not asked:
        return [], ElectLeadersResponse()
    if request.election_type not in tuple(ElectionType):
        return [], _unknown_election(request)
    elections = _Elections(context, ElectionType(request.election_type))
    results = elections.of_all() if asked is None else elections.of_named(asked)
    return elections.records, ElectLeadersResponse(replica_election_results=results)


def _unknown_election(request: ElectLeadersRequest) -> ElectLeadersResponse:
    refused = RefusedError(ErrorCode.INVALID_REQUEST, f"There is no election type {request.election_type}.")
    results = tuple(
        ReplicaElectionResult(
            topic=topic.topic, partition_result=tuple(_result(index, refused) for index in topic.partitions)
        )
        for topic in request.topic_partitions or ()
    )
    return ElectLeadersResponse(error_code=refused.code, replica_election_results=results)


class _Elections:
    """The elections of one request, and their records."""

    def __init__(self, context: DecisionContext, kind: ElectionType) -> None:
        self.records: list[Message] = []
        self._context = context
        self._kind = kind
        self._may_lead: MayLead = may_lead_now(context.image)
        self._done: set[tuple[str, int]] = set()

    def of_named(self, asked: Iterable[TopicPartitions]) -> tuple[ReplicaElectionResult, ...]:
        """Returns a result for each partition in the request."""
        return tuple(
            ReplicaElectionResult(
                topic=named.topic,
                partition_result=tuple(
                    _result(index, self._elect(self._context.image.topic(named.topic), index))
                    for index in named.partitions
                ),
            )
            for named in asked
        )

    def of_all(self) -> tuple[ReplicaElectionResult, ...]:
        """Returns results for the partitions whose current leader is not the one that would be elected."""
        results: list[ReplicaElectionResult] = []
        for topic in self._context.image.topics_by_name.values():
            needed = [
                _result(index, self._elect(topic, index))
                for index, partition in enumerate(topic.partitions)
                if self._is_needed(partition)
            ]
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=tuple(needed)))
        return tuple(results)

    def _elect(self, topic: TopicImage | None, index: int) -> RefusedError | None:
        if topic is None or not 0 <= index < len(topic.partitions):
            return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
        if (topic.name, index) in self._done or not self._is_needed(topic.partitions[index]):
            return _NOT_NEEDED
        record = self._election_of(topic, index)
        if record is None:
            return self._impossible()
        self._done.add((topic.name, index))
        self.records.append(record)
        return None

    def _is_needed(self, partition: PartitionImage) -> bool:
        if self._kind is ElectionType.UNCLEAN:
            return partition.leader == NO_LEADER
        return partition.leader != partition.replicas[0]

    def _election_of(self, topic: TopicImage, index: int) -> PartitionChangeRecord | None:
        return change_partition(
            topic.partitions[index],
            topic.topic_id,
            index,
            Wanted(election=_ELECTIONS[self._kind]),
            min_insync=replication_settings(self._context, topic.name).min_insync,
            may_lead=self._may_lead,
        )

    def _impossible(self) -> RefusedError:
        if self._kind is ElectionType.PREFERRED:
            return RefusedError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader is not available.")
        return RefusedError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica could lead the partition.")


def _result(index: int, refusal: RefusedError | None) -> PartitionResult:
    if refusal is None:
        return PartitionResult(partition_id=index, error_message=None)
    return PartitionResult(partition_id=index, error_code=refusal.code, error_message=refusal.message)
