"""Automatic creation of topics, for a client's Metadata request or for a coordinator."""

from collections.abc import Collection, Mapping

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.create_topics import Creation, create_topic
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from odradek.wire.schema.schema import Message


def auto_create_topics(
    context: DecisionContext, names: Collection[str]
) -> tuple[list[Message], dict[str, RefusedError | None]]:
    """Create the topics of these names that do not exist. The reply has for each name None, or its error."""
    creation = Creation(context)
    return creation.records, {name: _ensure(creation, name) for name in dict.fromkeys(names)}


def _ensure(creation: Creation, name: str) -> RefusedError | None:
    try:
        create_topic(creation, wanted_topic(creation.context, name))
    except RefusedError as refused:
        return None if refused.code is ErrorCode.TOPIC_ALREADY_EXISTS else refused
    return None


def wanted_topic(context: DecisionContext, name: str) -> CreatableTopic:
    """Returns the topic to create: internal topics as their coordinators need them, others with default settings."""
    if name == CONSUMER_OFFSETS:
        return _internal(context, name, "offsets.topic", _offsets_configs(context))
    if name == TRANSACTION_STATE:
        return _internal(context, name, "transaction.state.log", _transaction_configs(context))
    if name == SHARE_GROUP_STATE:
        return _internal(context, name, "share.coordinator.state.topic", _share_configs(context))
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


def _internal(context: DecisionContext, name: str, prefix: str, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=context.number(f"{prefix}.num.partitions"),
        replication_factor=context.number(f"{prefix}.replication.factor"),
        configs=tuple(CreatableTopicConfig(name=key, value=text) for key, text in configs.items()),
    )


def _offsets_configs(context: DecisionContext) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(context.number("offsets.topic.segment.bytes")),
    }


def _transaction_configs(context: DecisionContext) -> dict[str, str]:
    return {
        "unclean.leader.election.enable": "false",
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": str(context.number("transaction.state.log.min.isr")),
        "segment.bytes": str(context.number("transaction.state.log.segment.bytes")),
    }


def _share_configs(context: DecisionContext) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": str(context.number("share.coordinator.state.topic.segment.bytes")),
        "min.insync.replicas": str(context.number("share.coordinator.state.topic.min.isr")),
        "retention.ms": "-1",
    }
