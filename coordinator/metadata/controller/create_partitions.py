"""CreatePartitions: more partitions for topics, placed by the controller or as the request assigns them."""

from collections import Counter

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.assignment import (
    NewPartitions,
    check_assignment,
    check_room,
    partition_records,
)
from odradek.coordinator.metadata.controller.placement import place_replicas
from odradek.coordinator.metadata.image.image import TopicImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from odradek.wire.schema.schema import Message


def create_partitions(
    context: DecisionContext, request: CreatePartitionsRequest
) -> tuple[list[Message], CreatePartitionsResponse]:
    """Decide on all topics of a request, each independently. Nothing is written for validate_only."""
    times = Counter(topic.name for topic in request.topics)
    duplicate = RefusedError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = [_result(name, duplicate) for name, count in times.items() if count > 1]
    records: list[Message] = []
    results += [_decide(context, topic, records) for topic in request.topics if times[topic.name] == 1]
    return [] if request.validate_only else records, CreatePartitionsResponse(results=tuple(results))


def _result(name: str, refused: RefusedError | None) -> CreatePartitionsTopicResult:
    if refused is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=refused.code, error_message=refused.message)


def _decide(
    context: DecisionContext, asked: CreatePartitionsTopic, records: list[Message]
) -> CreatePartitionsTopicResult:
    try:
        topic = _existing(context, asked.name)
        added = _added(context, topic, asked, len(records))
        records += partition_records(context.image, topic.topic_id, len(topic.partitions), added)
    except RefusedError as refused:
        return _result(asked.name, refused)
    return _result(asked.name, None)


def _existing(context: DecisionContext, name: str) -> TopicImage:
    topic = context.image.topic(name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    return topic


def _added(context: DecisionContext, topic: TopicImage, asked: CreatePartitionsTopic, created: int) -> NewPartitions:
    """Returns the new partitions of one topic; `created` were added to others before. Raises RefusedError."""
    _check_count(topic, asked.count)
    additional = asked.count - len(topic.partitions)
    factor = len(topic.partitions[0].replicas)
    check_room(context, created, additional)
    if asked.assignments is None:
        start = context.image.partition_count + created
        return NewPartitions(place_replicas(context.image.brokers.values(), additional, factor, start=start))
    if len(asked.assignments) != additional:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)} "
            "assignment(s) were specified.",
        )
    for index, assignment in enumerate(asked.assignments, start=len(topic.partitions)):
        check_assignment(context.image, assignment.broker_ids, factor, index)
    return NewPartitions([assignment.broker_ids for assignment in asked.assignments])


def _check_count(topic: TopicImage, count: int) -> None:
    now = len(topic.partitions)
    if count == now:
        raise RefusedError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if count < now:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {now} partition(s); {count} would not be an increase.",
        )
