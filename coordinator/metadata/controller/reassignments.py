"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455), answered from a published image.

With one broker there is one possible assignment, the present one; everything else is refused as Kafka refuses it on
one broker, and no reassignment is ever under way.
"""

from collections.abc import Sequence

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answer each partition independently."""
    responses = tuple(
        ReassignableTopicResponse(
            name=topic.name, partitions=tuple(_answer(image, topic.name, target) for target in topic.partitions)
        )
        for topic in request.topics
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _answer(image: MetadataImage, topic: str, target: ReassignablePartition) -> ReassignablePartitionResponse:
    error, message = ErrorCode.NONE, None
    try:
        _check(image, topic, target)
    except RefusedError as refused:
        error, message = refused.code, refused.message
    return ReassignablePartitionResponse(
        partition_index=target.partition_index, error_code=error, error_message=message
    )


def _check(image: MetadataImage, topic: str, target: ReassignablePartition) -> None:
    if image.partition(topic, target.partition_index) is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
    if target.replicas is None:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    _check_replicas(image, target.replicas)


def _check_replicas(image: MetadataImage, replicas: Sequence[int]) -> None:
    unknown = [node for node in replicas if node not in image.brokers]
    if not replicas:
        raise _bad("A partition needs a replica.")
    if len(set(replicas)) < len(replicas):
        raise _bad("A broker is named more than once.")
    if unknown:
        raise _bad(f"There are no brokers {', '.join(map(str, unknown))}.")


def _bad(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The named partitions, or of all partitions those, whose replicas are being reassigned."""
    asked = request.topics
    if asked is None:
        asked = [
            ListPartitionReassignmentsTopics(name=topic.name, partition_indexes=tuple(range(len(topic.partitions))))
            for topic in image.topics_by_name.values()
        ]
    found = [(topic.name, _under_way(image, topic)) for topic in asked]
    topics = tuple(OngoingTopicReassignment(name=name, partitions=parts) for name, parts in found if parts)
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _under_way(
    image: MetadataImage, asked: ListPartitionReassignmentsTopics
) -> tuple[OngoingPartitionReassignment, ...]:
    partitions = [(index, image.partition(asked.name, index)) for index in asked.partition_indexes]
    return tuple(
        OngoingPartitionReassignment(
            partition_index=index,
            replicas=part.replicas,
            adding_replicas=part.adding_replicas,
            removing_replicas=part.removing_replicas,
        )
        for index, part in partitions
        if part is not None and (part.adding_replicas or part.removing_replicas)
    )
