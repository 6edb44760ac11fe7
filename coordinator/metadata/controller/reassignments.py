"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455): partitions move to other brokers.

A reassignment adds the new replicas, waits until they have caught up, and removes the old ones. The last step is part
of the first change after which all replicas that stay are in sync (`partition_change.py`), usually the leader's
AlterPartition. A new target replaces the previous one, and a request without a target reverts the reassignment.
"""

from collections.abc import Sequence

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.broker_changes import may_lead_now
from odradek.coordinator.metadata.controller.partition_change import Election, Wanted, change_partition
from odradek.coordinator.metadata.controller.replication_settings import ReplicationSettings, replication_settings
from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage
from odradek.coordinator.metadata.settings import DecisionContext
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
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import PartitionChangeRecord


def alter_partition_reassignments(
    context: DecisionContext, request: AlterPartitionReassignmentsRequest
) -> tuple[list[Message], AlterPartitionReassignmentsResponse]:
    """Decide on each partition independently: another assignment, or None to revert to the original one."""
    records: list[Message] = []
    change = _Reassignment(context, keep_factor=not request.allow_replication_factor_change)
    responses = tuple(
        ReassignableTopicResponse(
            name=topic.name,
            partitions=tuple(_answer(change, records, topic.name, target) for target in topic.partitions),
        )
        for topic in request.topics
    )
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    return records, response


def _answer(
    change: "_Reassignment", records: list[Message], topic: str, target: ReassignablePartition
) -> ReassignablePartitionResponse:
    error, message = ErrorCode.NONE, None
    try:
        record = change.of(topic, target)
        if record is not None:
            records.append(record)
    except RefusedError as refused:
        error, message = refused.code, refused.message
    return ReassignablePartitionResponse(
        partition_index=target.partition_index, error_code=error, error_message=message
    )


class _Reassignment:
    """Changes of assignments in one request. With `keep_factor` the number of replicas must stay the same (KIP-860)."""

    def __init__(self, context: DecisionContext, *, keep_factor: bool) -> None:
        self._context = context
        self._keep_factor = keep_factor
        self._may_lead = may_lead_now(context.image)
        self._changed: set[tuple[str, int]] = set()

    def of(self, name: str, target: ReassignablePartition) -> PartitionChangeRecord | None:
        """Returns the record that begins, changes or reverts a reassignment, None if unchanged. Raises RefusedError."""
        index = target.partition_index
        topic = self._context.image.topic(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
        if (name, index) in self._changed:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
        before = topic.partitions[index]
        settings = replication_settings(self._context, name)
        if target.replicas is None:
            wanted = _reverted(before, settings)
        else:
            check_replicas(self._context.image, target.replicas)
            if self._keep_factor:
                _check_factor(before, target.replicas)
            wanted = _reassigned(before, target.replicas)
        record = change_partition(
            before, topic.topic_id, index, wanted, min_insync=settings.min_insync, may_lead=self._may_lead
        )
        if record is not None:
            self._changed.add((name, index))
        return record


def is_under_way(partition: PartitionImage) -> bool:
    """True if the partition's replicas are being reassigned."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _reassigned(before: PartitionImage, target: Sequence[int]) -> Wanted:
    """Returns the state with the new replicas added, and all others marked for removal (KIP-455).

    Replicas that another reassignment is adding, and that are not in this target, are removed at once, unless no other
    replica has the committed records.
    """
    original = original_replicas(before)
    staying = {*original, *target}
    if not staying.intersection(before.isr or before.elr):
        staying.update(before.replicas)
    removing = sorted(staying.difference(target))
    adding = sorted(set(target).difference(original))
    isr = [each for each in before.isr if each in staying]
    return Wanted(isr=isr, replicas=(*target, *removing), adding=adding, removing=removing)


def original_replicas(partition: PartitionImage) -> tuple[int, ...]:
    """Returns the replicas without those that a reassignment is adding."""
    return tuple(each for each in partition.replicas if each not in partition.adding_replicas)


def _reverted(before: PartitionImage, settings: ReplicationSettings) -> Wanted:
    """Returns the state before the reassignment. Raises RefusedError.

    If only replicas that are being added are in sync, none would remain in sync, and a replica of the ELR may still
    lose its records: as in Kafka, reverting then requires that unclean elections are allowed.
    """
    if not is_under_way(before):
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    replicas = original_replicas(before)
    isr = [each for each in before.isr if each in replicas]
    if not isr and not settings.unclean_election:
        raise _bad("Going back to the replicas before would take an unclean leader election.")
    election = Election.UNCLEAN if settings.unclean_election else Election.ONLINE
    return Wanted(isr=isr, replicas=replicas, adding=(), removing=(), election=election)


def _check_factor(before: PartitionImage, target: Sequence[int]) -> None:
    now = len(original_replicas(before))
    if len(target) != now:
        message = f"The replication factor would change from {now} to {len(target)}."
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def check_replicas(image: MetadataImage, replicas: Sequence[int]) -> None:
    """Check replicas that a request assigns. Raises RefusedError (INVALID_REPLICA_ASSIGNMENT)."""
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
    """Returns those of the requested partitions, or of all, whose replicas are being reassigned."""
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
        if part is not None and is_under_way(part)
    )
