"""ListConfigResources (API 74), versions 0 to 1: the resources that have configs (KIP-1142).

Version 0 lists client metrics subscriptions only. Groups and subscriptions are listed if a config is set for them;
topics, brokers and loggers always.
"""

from collections.abc import Iterable
from typing import Final

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

REQUEST: Final = ListConfigResourcesRequest
TYPES_SINCE: Final = 1


async def handle(ctx: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Answer from the published image; no types means all."""
    asked: Iterable[int] = (ResourceType.CLIENT_METRICS,)
    if ctx.api_version >= TYPES_SINCE:
        asked = dict.fromkeys(request.resource_types) or tuple(ResourceType)
    if not set(asked) <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in asked
        for name in _names(ctx.services.metadata.image, kind)
    ]
    return ListConfigResourcesResponse(config_resources=tuple(found))


def _names(image: MetadataImage, kind: int) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return list(image.topics_by_name)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker) for broker in image.brokers]
        case _:
            return [name for each, name in image.configs if each == kind]
