"""ElectLeaders, answered from a published image: with one replica everywhere no election ever changes anything."""

from collections.abc import Iterable
from enum import IntEnum

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)


class ElectionType(IntEnum):
    """The kind of election, numbered as in the request."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(image: MetadataImage, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Answer each partition independently; a request for all partitions gives only those that need an election."""
    asked = request.topic_partitions
    if asked is not None and not asked:
        return ElectLeadersResponse()
    if request.election_type not in tuple(ElectionType):
        return _unknown_election(request)
    election = ElectionType(request.election_type)
    return ElectLeadersResponse(
        replica_election_results=_all(image, election) if asked is None else _named(image, election, asked)
    )


def _unknown_election(request: ElectLeadersRequest) -> ElectLeadersResponse:
    refused = RefusedError(ErrorCode.INVALID_REQUEST, f"There is no election type {request.election_type}.")
    results = tuple(
        ReplicaElectionResult(
            topic=topic.topic, partition_result=tuple(_result(index, refused) for index in topic.partitions)
        )
        for topic in request.topic_partitions or ()
    )
    return ElectLeadersResponse(error_code=refused.code, replica_election_results=results)


def _named(
    image: MetadataImage, election: ElectionType, asked: Iterable[TopicPartitions]
) -> tuple[ReplicaElectionResult, ...]:
    return tuple(
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                _result(index, _refusal(image.partition(topic.topic, index), election)) for index in topic.partitions
            ),
        )
        for topic in asked
    )


def _all(image: MetadataImage, election: ElectionType) -> tuple[ReplicaElectionResult, ...]:
    results: list[ReplicaElectionResult] = []
    for topic in image.topics_by_name.values():
        refusals = [_refusal(partition, election) for partition in topic.partitions]
        needed = [
            _result(index, refusals[index])
            for index in range(len(refusals))
            if refusals[index].code is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        results.append(ReplicaElectionResult(topic=topic.name, partition_result=tuple(needed)))
    return tuple(results)


def _refusal(partition: PartitionImage | None, election: ElectionType) -> RefusedError:
    if partition is None:
        return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
    preferred = partition.leader == partition.replicas[0]
    if preferred or (election is ElectionType.UNCLEAN and partition.leader != NO_LEADER):
        return RefusedError(ErrorCode.ELECTION_NOT_NEEDED, "The partition has the leader that it would get.")
    if election is ElectionType.PREFERRED:
        return RefusedError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader is not available.")
    return RefusedError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica could lead the partition.")


def _result(index: int, refusal: RefusedError) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=refusal.code, error_message=refusal.message)
