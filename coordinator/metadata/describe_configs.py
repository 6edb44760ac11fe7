"""DescribeConfigs, answered from a published image, since it decides nothing."""

from collections.abc import Mapping
from typing import Final

from odradek.coordinator.configs.definition import ConfigSource, ResourceType
from odradek.coordinator.configs.describe import (
    DescribeOptions,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.coordinator.metadata.topic_names import check_topic_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

Entries = tuple[DescribeConfigsResourceResult, ...]

_NO_LOGGERS: Final[Mapping[str, str]] = {}


def describe_configs(
    context: DecisionContext, request: DescribeConfigsRequest, loggers: Mapping[str, str] = _NO_LOGGERS
) -> DescribeConfigsResponse:
    """Describe all resources of a request, each independently. `loggers` are this broker's levels by name."""
    return DescribeConfigsResponse(
        results=tuple(_result(context, request, resource, loggers) for resource in request.resources)
    )


def _result(
    context: DecisionContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    loggers: Mapping[str, str],
) -> DescribeConfigsResult:
    options = DescribeOptions(
        resource.configuration_keys, synonyms=request.include_synonyms, documentation=request.include_documentation
    )
    error, message, entries = ErrorCode.NONE, "", ()
    try:
        entries = _entries(context, resource, options, loggers)
    except RefusedError as refused:
        error, message = refused.code, refused.message
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=entries,
    )


def _entries(
    context: DecisionContext, resource: DescribeConfigsResource, options: DescribeOptions, loggers: Mapping[str, str]
) -> Entries:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic(context, name, options)
        case ResourceType.BROKER:
            return _broker(context, name, options)
        case ResourceType.BROKER_LOGGER:
            return _loggers(context, name, options, loggers)
        case ResourceType.GROUP:
            if not name:
                raise _invalid("Group name must not be empty")
            return describe_group(context.image.configs_of(ResourceType.GROUP, name), context.layers, options)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise _invalid("The name of a client metrics subscription must not be empty")
            return describe_client_metrics(context.image.configs_of(ResourceType.CLIENT_METRICS, name), options)
        case _:
            raise _invalid(f"Unsupported resource type {resource.resource_type}")


def _topic(context: DecisionContext, name: str, options: DescribeOptions) -> Entries:
    check_topic_name(name)
    if context.image.topic(name) is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return describe_topic(context.image.configs_of(ResourceType.TOPIC, name), context.layers, options)


def _broker(context: DecisionContext, name: str, options: DescribeOptions) -> Entries:
    if not name:
        return describe_broker_default(context.layers, options)
    if _broker_id(name) != context.node_id:
        raise _invalid(f"Unexpected broker id, expected {context.node_id} or empty string, but received {name}")
    return describe_broker(context.layers, options)


def _loggers(context: DecisionContext, name: str, options: DescribeOptions, loggers: Mapping[str, str]) -> Entries:
    if not name:
        raise _invalid("Broker id must not be empty")
    if _broker_id(name) != context.node_id:
        raise _invalid(f"Unexpected broker id, expected {context.node_id} but received {name}")
    return tuple(
        DescribeConfigsResourceResult(
            name=logger, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, documentation=None
        )
        for logger, level in loggers.items()
        if not options.keys or logger in options.keys
    )


def _broker_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise _invalid(f"Broker id must be an integer, but it is: {name}") from None


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
