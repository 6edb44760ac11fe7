"""CreateTopics: for each requested topic the records that create it, or the error that refuses it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.configs.layers import effective_topic_texts
from odradek.coordinator.configs.tables import TOPIC_CONFIGS
from odradek.coordinator.configs.validation import validate_topic_configs
from odradek.coordinator.metadata.controller.assignment import NewPartitions, assign, partition_records
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.coordinator.metadata.topic_names import CLUSTER_METADATA, check_topic_name, collision_key
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import ConfigRecord, TopicRecord
from odradek.wire.values import mutable


@mutable
class Creation:
    """The topics that one request creates: their records so far, and the numbers of topics and partitions."""

    context: DecisionContext
    records: list[Message] = field(default_factory=list[Message])
    topics: int = 0
    partitions: int = 0


def create_topics(context: DecisionContext, request: CreateTopicsRequest) -> tuple[list[Message], CreateTopicsResponse]:
    """Decide on all topics of a request, each independently. Nothing is written for validate_only."""
    creation = Creation(context)
    times = Counter(topic.name for topic in request.topics)
    results = [_result(creation, topic) for topic in request.topics if times[topic.name] == 1]
    for name, count in times.items():
        if count > 1:
            results.append(_failure(name, RefusedError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
    records = [] if request.validate_only else creation.records
    return records, CreateTopicsResponse(topics=tuple(results))


def _result(creation: Creation, topic: CreatableTopic) -> CreatableTopicResult:
    try:
        return create_topic(creation, topic)
    except RefusedError as refused:
        return _failure(topic.name, refused)


def _failure(name: str, refused: RefusedError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refused.code, error_message=refused.message)


def create_topic(creation: Creation, topic: CreatableTopic) -> CreatableTopicResult:
    """Add the records of one topic and describe it. Raises RefusedError."""
    context = creation.context
    _check_name(context, topic.name)
    _check_topic_count(context, creation.topics)
    overrides = _overrides(topic)
    validate_topic_configs(overrides, context.layers)
    partitions = assign(context, topic, creation.partitions)
    topic_id = next(context.topic_ids)
    creation.records += [
        TopicRecord(name=topic.name, topic_id=topic_id),
        *_config_records(topic.name, overrides),
        *partition_records(context.image, topic_id, 0, partitions),
    ]
    creation.topics += 1
    creation.partitions += len(partitions.replicas)
    return _success(context, topic.name, topic_id, overrides, partitions)


def _check_name(context: DecisionContext, name: str) -> None:
    if name == CLUSTER_METADATA:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if context.image.topic(name) is not None:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic_name(name)
    colliding = context.image.colliding.get(collision_key(name) or "")
    if colliding:
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding[0]}"
        )


def _check_topic_count(context: DecisionContext, created: int) -> None:
    limit = context.number("odradek.topics.max")
    if len(context.image.topics_by_id) + created >= limit:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, f"There are odradek.topics.max={limit} topics already.")


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    missing = [config.name for config in topic.configs if config.value is None]
    if missing:
        message = f"Null value not supported for topic configs: {','.join(missing)}"
        raise RefusedError(ErrorCode.INVALID_CONFIG, message)
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _config_records(name: str, overrides: Mapping[str, str]) -> list[ConfigRecord]:
    return [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key, value=text)
        for key, text in overrides.items()
    ]


def _success(
    context: DecisionContext, name: str, topic_id: UUID, overrides: Mapping[str, str], partitions: NewPartitions
) -> CreatableTopicResult:
    """Returns the result for a created topic; encoding below version 5 omits fields."""
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions.replicas),
        replication_factor=partitions.replication_factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=key,
                value=None if TOPIC_CONFIGS[key].sensitive else text,
                config_source=source,
                is_sensitive=TOPIC_CONFIGS[key].sensitive,
            )
            for key, text, source in effective_topic_texts(overrides, context.layers)
        ),
    )
