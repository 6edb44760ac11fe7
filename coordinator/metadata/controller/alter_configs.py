"""AlterConfigs and IncrementalAlterConfigs: changes of the configs of topics, brokers, groups and client metrics
subscriptions.

AlterConfigs replaces all configs of a resource; the incremental form (KIP-339) changes single ones. Each resource is
decided independently. Records for brokers are written even if nothing changes, since they make brokers read their files
again (KAFKA-14136).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.configs.numbers import parse_integer
from odradek.coordinator.configs.operations import AlterOperation, apply_operation
from odradek.coordinator.configs.validation import (
    refuse_protections,
    validate_broker_configs,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_topic_configs,
)
from odradek.coordinator.metadata.controller.min_insync_changes import follow_min_insync
from odradek.coordinator.metadata.controller.replication_settings import MIN_INSYNC_REPLICAS
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.coordinator.metadata.topic_names import check_topic_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_configs as legacy
from odradek.wire.messages import incremental_alter_configs as incremental
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import ConfigRecord

Resource = TypeVar("Resource", legacy.AlterConfigsResource, incremental.AlterConfigsResource)
Result = TypeVar("Result", legacy.AlterConfigsResourceResponse, incremental.AlterConfigsResourceResponse)

LOGGERS_REFUSED: Final = (
    "The levels of loggers cannot be changed at run time; start the broker again with another --log-level."
)
_ALTERABLE: Final = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS)


def alter_configs(
    context: DecisionContext, request: legacy.AlterConfigsRequest
) -> tuple[list[Message], legacy.AlterConfigsResponse]:
    """Decide on all resources of a request. Nothing is written for validate_only."""
    records, errors = _decide_each(context, request.resources, _replaced)
    responses = results_of(legacy.AlterConfigsResourceResponse, request.resources, errors)
    return [] if request.validate_only else records, legacy.AlterConfigsResponse(responses=responses)


def incremental_alter_configs(
    context: DecisionContext, request: incremental.IncrementalAlterConfigsRequest
) -> tuple[list[Message], incremental.IncrementalAlterConfigsResponse]:
    """Decide on all resources of a request. Nothing is written for validate_only."""
    records, errors = _decide_each(context, request.resources, _changed)
    responses = results_of(incremental.AlterConfigsResourceResponse, request.resources, errors)
    return [] if request.validate_only else records, incremental.IncrementalAlterConfigsResponse(responses=responses)


def results_of(
    result: type[Result],
    resources: Iterable[legacy.AlterConfigsResource | incremental.AlterConfigsResource],
    errors: Iterable[RefusedError | None],
) -> tuple[Result, ...]:
    """Returns the results of either request: for each resource the error, or none."""
    return tuple(
        result(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(resources, errors, strict=False)  # `errors` may be infinite
    )


def _decide_each(
    context: DecisionContext,
    resources: Iterable[Resource],
    change: Callable[[ResourceType, Resource, Mapping[str, str]], dict[str, str | None]],
) -> tuple[list[Message], list[RefusedError | None]]:
    """Returns the records of all changes, and for each resource the error that refuses it, or None.

    `change` returns the new text of each config in the request, None to remove it.
    """
    resources = list(resources)
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    records: list[Message] = []
    errors: list[RefusedError | None] = []
    min_insync: dict[tuple[ResourceType, str], str | None] = {}
    for resource in resources:
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise _invalid("Each resource must appear at most once.")
            _check_form(resource)
            kind = _kind(resource)
            changes = _accepted(context, kind, resource, change)
            records += _records(context, kind, resource.resource_name, changes)
            if MIN_INSYNC_REPLICAS in changes:
                min_insync[kind, resource.resource_name] = changes[MIN_INSYNC_REPLICAS]
            errors.append(None)
        except RefusedError as refused:
            errors.append(refused)
    return [*records, *follow_min_insync(context, min_insync)], errors


def _accepted(
    context: DecisionContext,
    kind: ResourceType,
    resource: Resource,
    change: Callable[[ResourceType, Resource, Mapping[str, str]], dict[str, str | None]],
) -> dict[str, str | None]:
    if kind is ResourceType.BROKER:
        _check_broker_name(context, resource.resource_name)
    before = context.image.configs_of(kind, resource.resource_name)
    changes = change(kind, resource, before)
    after = {**before, **changes}
    _validate(context, kind, resource.resource_name, {name: text for name, text in after.items() if text is not None})
    if kind is ResourceType.BROKER:
        refuse_protections(changes)
        _keep_one_min_insync(resource.resource_name, changes)
    return changes


def _records(
    context: DecisionContext, kind: ResourceType, resource_name: str, changes: Mapping[str, str | None]
) -> list[ConfigRecord]:
    before = context.image.configs_of(kind, resource_name)
    return [
        ConfigRecord(resource_type=kind, resource_name=resource_name, name=name, value=text)
        for name, text in changes.items()
        if kind is ResourceType.BROKER or before.get(name) != text
    ]


def _keep_one_min_insync(name: str, changes: Mapping[str, str | None]) -> None:
    """Refuse a value for a single broker, and to remove that of all: leaders and the controller need the same one."""
    if MIN_INSYNC_REPLICAS not in changes:
        return
    if name:
        message = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        raise RefusedError(ErrorCode.INVALID_CONFIG, message)
    if changes[MIN_INSYNC_REPLICAS] is None:
        message = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        raise RefusedError(ErrorCode.INVALID_CONFIG, message)


def _kind(resource: Resource) -> ResourceType:
    incremental_form = isinstance(resource, incremental.AlterConfigsResource)
    if resource.resource_type == ResourceType.BROKER_LOGGER and incremental_form:
        raise _invalid(LOGGERS_REFUSED)
    if resource.resource_type not in _ALTERABLE:
        raise _invalid(f"Unknown resource type {resource.resource_type}")
    return ResourceType(resource.resource_type)


def _check_form(resource: Resource) -> None:
    """Check for errors of a resource that do not depend on the values of its configs."""
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise _invalid("Error due to duplicate config keys")
    missing = [
        config.name
        for config in resource.configs
        if config.value is None and getattr(config, "config_operation", AlterOperation.SET) != AlterOperation.DELETE
    ]
    if missing:
        raise _invalid(f"Null value not supported for : {', '.join(missing)}")


def _changed(
    kind: ResourceType, resource: incremental.AlterConfigsResource, before: Mapping[str, str]
) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for config in resource.configs:
        if config.config_operation not in tuple(AlterOperation):
            raise _invalid(f"Unknown operations type {config.config_operation}")
        operation = AlterOperation(config.config_operation)
        changes[config.name] = apply_operation(kind, config.name, operation, config.value, before.get(config.name))
    return changes


def _replaced(
    _kind_of: ResourceType, resource: legacy.AlterConfigsResource, before: Mapping[str, str]
) -> dict[str, str | None]:
    return {**dict.fromkeys(before), **{config.name: config.value for config in resource.configs}}


def _check_broker_name(context: DecisionContext, name: str) -> None:
    """The empty name means all brokers; any other must be the id of this broker, or of a registered one."""
    if not name:
        return
    number = parse_integer(name, 32)
    if number is None:
        raise _invalid(f"Node id must be an integer, but it is: {name}")
    if number != context.node_id and number not in context.image.brokers:
        raise _invalid(f"Unexpected broker id, expected {context.node_id}, but received {name}")


def _validate(context: DecisionContext, kind: ResourceType, name: str, texts: Mapping[str, str]) -> None:
    """Check the resulting configs, then whether the resource exists, which is Kafka's order."""
    if kind is ResourceType.BROKER:
        validate_broker_configs(texts, per_broker=bool(name))
    elif kind is ResourceType.GROUP:
        if not name:
            raise _invalid("Default group resources are not allowed.")
        validate_group_configs(texts, context.layers)
    elif kind is ResourceType.CLIENT_METRICS:
        if not name:
            raise _invalid("The name of a client metrics subscription must not be empty.")
        validate_client_metrics_configs(texts)
    else:
        if not name:
            raise _invalid("Default topic resources are not allowed.")
        check_topic_name(name)
        validate_topic_configs(texts, context.layers)
        if context.image.topic(name) is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
