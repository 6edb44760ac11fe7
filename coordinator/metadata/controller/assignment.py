"""Replicas of new partitions: placed by the controller, or as the request assigns them."""

from collections.abc import Sequence
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.placement import place_replicas
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.request_size import check_partitions
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from odradek.wire.stored.metadata_records import PartitionRecord
from odradek.wire.values import immutable


@immutable
class NewPartitions:
    """Replicas of new partitions by position, preferred leader first."""

    replicas: Sequence[tuple[int, ...]]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of each partition."""
        return len(self.replicas[0])


def assign(context: DecisionContext, topic: CreatableTopic, created: int) -> NewPartitions:
    """Returns the partitions of a new topic. Raises RefusedError.

    `created` partitions precede them in the same request.
    """
    if topic.assignments:
        return NewPartitions(_assigned(context.image, topic))
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    count = context.number("num.partitions") if topic.num_partitions == -1 else topic.num_partitions
    check_room(context, created, count)
    factor = topic.replication_factor
    factor = context.number("default.replication.factor") if factor == -1 else factor
    return NewPartitions(_placed(context.image, count, factor, created))


def _placed(image: MetadataImage, count: int, factor: int, created: int) -> list[tuple[int, ...]]:
    try:
        return place_replicas(image.brokers.values(), count, factor, start=image.partition_count + created)
    except RefusedError as refused:
        raise RefusedError(
            refused.code, f"Unable to replicate the partition {factor} time(s): {refused.message}"
        ) from refused


def check_room(context: DecisionContext, created: int, count: int) -> None:
    """Raise RefusedError (POLICY_VIOLATION) when `count` more partitions are too many for the cluster.

    `created` partitions were created earlier in the same operation; their sum is limited like that of a Kafka request.
    """
    check_partitions(created + count)
    limit = context.number("odradek.partitions.max")
    if context.image.partition_count + created + count > limit:
        raise RefusedError(
            ErrorCode.POLICY_VIOLATION,
            f"{count} more partition(s) would exceed odradek.partitions.max={limit}; "
            f"there are {context.image.partition_count + created} now.",
        )


def _assigned(image: MetadataImage, topic: CreatableTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != -1:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    partitions: dict[int, tuple[int, ...]] = {}
    checked: set[tuple[int, ...]] = set()  # thousands of partitions have few different lists of replicas
    for assignment in topic.assignments:
        _add_assignment(image, partitions, assignment, checked)
    if sorted(partitions) != list(range(len(partitions))):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [partitions[index] for index in range(len(partitions))]


def _add_assignment(
    image: MetadataImage,
    partitions: dict[int, tuple[int, ...]],
    assignment: CreatableReplicaAssignment,
    checked: set[tuple[int, ...]],
) -> None:
    if assignment.partition_index in partitions:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Found multiple manual partition assignments for partition {assignment.partition_index}",
        )
    if assignment.broker_ids not in checked:
        factor = len(next(iter(partitions.values()))) if partitions else None
        check_assignment(image, assignment.broker_ids, factor, assignment.partition_index)
        checked.add(assignment.broker_ids)
    partitions[assignment.partition_index] = assignment.broker_ids


def check_assignment(image: MetadataImage, brokers: Sequence[int], factor: int | None, index: int) -> None:
    """Check the replicas that a request assigns to partition `index`. Raises RefusedError."""
    reason = _wrong_brokers(image, brokers)
    if reason is None and factor is not None and len(brokers) != factor:
        reason = (
            f"includes a partition with {len(brokers)} replica(s), but this is not consistent with previous "
            f"partitions, which have {factor} replica(s)."
        )
    if reason is not None:
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {reason}")
    if not any(image.brokers[broker].is_active for broker in brokers):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown.",
        )


def _wrong_brokers(image: MetadataImage, brokers: Sequence[int]) -> str | None:
    if not brokers:
        return "includes an empty replica list."
    before = None
    for broker in sorted(brokers):
        if broker not in image.brokers:
            return f"includes broker {broker}, but no such broker is registered."
        if broker == before:
            return f"includes the broker {broker} more than once."
        before = broker
    return None


def partition_records(
    image: MetadataImage, topic_id: UUID, first: int, partitions: NewPartitions
) -> list[PartitionRecord]:
    """Returns the records of new partitions from index `first` on: active replicas are in sync, the first leads."""
    in_sync = {
        replicas: tuple(broker for broker in replicas if image.brokers[broker].is_active)
        for replicas in set(partitions.replicas)
    }
    return [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=in_sync[replicas],
            leader=in_sync[replicas][0],
            leader_epoch=0,
            partition_epoch=0,
        )
        for index, replicas in enumerate(partitions.replicas, start=first)
    ]
