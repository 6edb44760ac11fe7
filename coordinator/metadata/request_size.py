"""Kafka's limits on how much one request may create, which bound the work and the records of one decision."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.coordinator.metadata.topic_names import reason_invalid
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

Topic = TypeVar("Topic", CreatableTopic, CreatePartitionsTopic)

MAX_RECORDS: Final = 10_000
"""Kafka's MAX_RECORDS_PER_USER_OP: the maximum number of records of a request, and of the partitions in it."""

_TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."
_TOO_MANY_RECORDS: Final = "Unable to perform excessively large batch operation."


def check_partitions(count: int) -> None:
    """Raise RefusedError (POLICY_VIOLATION) if no request may create so many partitions."""
    if count > MAX_RECORDS:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_PARTITIONS)


def check_create_topics(context: DecisionContext, request: CreateTopicsRequest) -> None:
    """Raise RefusedError (POLICY_VIOLATION) if CreateTopics requests too much; then none of its topics is created.

    Topics that occur more than once in the request do not count. The partitions of topics that exist, or whose names
    are invalid, count as partitions, but they write no record.
    """
    default = context.number("num.partitions")
    topics = _once(request.topics)
    check_partitions(sum([partitions_of(topic, default) for topic in topics]))
    new = [topic for topic in topics if context.image.topic(topic.name) is None and reason_invalid(topic.name) is None]
    if sum([1 + len(topic.configs) + partitions_of(topic, default) for topic in new]) > MAX_RECORDS:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_RECORDS)


def check_create_partitions(image: MetadataImage, request: CreatePartitionsRequest) -> None:
    """Raise RefusedError (POLICY_VIOLATION) if CreatePartitions requests too much; then no partition is created."""
    topics = _once(request.topics)
    if sum([added_partitions(image, topic) for topic in topics]) > MAX_RECORDS:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_RECORDS)


def added_partitions(image: MetadataImage, asked: CreatePartitionsTopic) -> int:
    """Returns how many partitions the topic would get; 0 if there is no such topic."""
    topic = image.topic(asked.name)
    return 0 if topic is None else max(asked.count - len(topic.partitions), 0)


def partitions_of(topic: CreatableTopic, default: int) -> int:
    """Returns the number of partitions of a new topic; `default` if the request leaves it to the broker."""
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _once(topics: Sequence[Topic]) -> list[Topic]:
    times = Counter([topic.name for topic in topics])
    return [topic for topic in topics if times[topic.name] == 1]
