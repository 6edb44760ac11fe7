"""Metadata (API 3), versions 0 to 13: the brokers, and topics with their partitions' leaders.

Unknown topics are created if both the client and `auto.create.topics.enable` allow it; the response waits until they
exist, while Kafka makes the client repeat the request (docs/differences.md).

From version 12 on topics may be requested by id (KIP-516). As in Kafka, a request with any id is one by ids, and
entries without an id are then ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from odradek.coordinator.metadata.topic_names import error_of_missing
from odradek.gateway.handling.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from odradek.gateway.handling.brokers import Reachable, leader_of, reachable, some_broker
from odradek.gateway.handling.metadata import answer_of_controller
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

REQUEST: Final = MetadataRequest
NO_TOPIC_ID: Final = UUID(int=0)
NOT_ASKED: Final = -(2**31)
IDS_IN_REQUESTS_SINCE: Final = 12
"""Versions 10 and 11 have the fields, but do not allow requests by id."""
LISTENER_ERRORS_SINCE: Final = 6
"""From this version on, clients know LISTENER_NOT_FOUND."""
ONLINE_REPLICAS_UNTIL: Final = 0
"""Up to this version unreachable replicas are left out, and the partition has an error for them."""


async def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Describe the requested topics; null means all of them, and so does an empty list in version 0."""
    everything = request.topics is None or (ctx.api_version == 0 and not request.topics)
    asked = _asked(request, ctx.api_version)
    if isinstance(asked, ErrorCode):
        return _refused(request, asked)
    if everything:
        found = await _all(ctx, request)
    else:
        found = await _named(ctx, request, asked)
    brokers = reachable(ctx.services.metadata.image, ctx.session.listener)
    return MetadataResponse(
        brokers=tuple(
            [
                MetadataResponseBroker(node_id=broker.id, host=at.host, port=at.port, rack=broker.rack)
                for broker, at in brokers.values()
            ]
        ),
        cluster_id=ctx.services.cluster_id,
        controller_id=some_broker(brokers, ctx.services.env.random.choice),
        topics=tuple(found),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _asked(request: MetadataRequest, api_version: int) -> list[MetadataRequestTopic] | ErrorCode:
    """The requested topics, each once; an error for a request with ambiguous entries."""
    topics = request.topics or ()
    by_id = {topic.topic_id: topic for topic in topics if topic.topic_id != NO_TOPIC_ID}  # of any name
    if by_id:
        return list(by_id.values()) if api_version >= IDS_IN_REQUESTS_SINCE else ErrorCode.INVALID_REQUEST
    by_name = {topic.name: topic for topic in topics}
    return ErrorCode.INVALID_REQUEST if None in by_name else list(by_name.values())


def _refused(request: MetadataRequest, error: ErrorCode) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=tuple(topics), error_code=error)


async def _all(ctx: RequestContext, request: MetadataRequest) -> list[MetadataResponseTopic]:
    found: list[MetadataResponseTopic] = []
    view = _View(ctx)
    for topic in tuple(view.image.topics_by_name.values()):
        await ctx.take_turns()
        found.append(view.describe(topic, request))
    return found


async def _named(
    ctx: RequestContext, request: MetadataRequest, topics: Sequence[MetadataRequestTopic]
) -> list[MetadataResponseTopic]:
    image = ctx.services.metadata.image
    missing = [
        topic.name
        for topic in topics
        if topic.name and topic.topic_id == NO_TOPIC_ID and image.topic(topic.name) is None
    ]
    refused: Mapping[str, RefusedError | None] = {}
    if missing and request.allow_auto_topic_creation and ctx.services.config.auto_create_topics_enable:
        refused = await _create(ctx, missing)
    view = _View(ctx)
    found: list[MetadataResponseTopic] = []
    for topic in topics:
        await ctx.take_turns()
        if view.image is not ctx.services.metadata.image:
            view = _View(ctx)
        found.append(_one(view, request, topic, refused))
    return found


async def _create(ctx: RequestContext, names: list[str]) -> Mapping[str, RefusedError | None]:
    def unavailable(_: ErrorCode) -> Mapping[str, RefusedError | None]:
        return dict.fromkeys(names, RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, None))

    return await answer_of_controller(ctx.services.controllers.auto_create(names), unavailable)


def _one(
    view: "_View",
    request: MetadataRequest,
    asked: MetadataRequestTopic,
    refused: Mapping[str, RefusedError | None],
) -> MetadataResponseTopic:
    image = view.image
    if asked.name is None or asked.topic_id != NO_TOPIC_ID:
        found = image.topic_by_id(asked.topic_id)
        if found is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return view.describe(found, request)
    found = image.topic(asked.name)
    if found is not None:
        return view.describe(found, request)
    refusal = refused.get(asked.name)
    error = error_of_missing(asked.name) if refusal is None else refusal.code
    return MetadataResponseTopic(error_code=error, name=asked.name, topic_id=NO_TOPIC_ID)


class _View:
    """The topics of the current image, for one request's API version and listener."""

    def __init__(self, ctx: RequestContext) -> None:
        self.image: MetadataImage = ctx.services.metadata.image
        self._brokers: Reachable = reachable(self.image, ctx.session.listener)
        self._has_listener_error = ctx.api_version >= LISTENER_ERRORS_SINCE
        self._leaves_out = ctx.api_version <= ONLINE_REPLICAS_UNTIL

    def describe(self, topic: TopicImage, request: MetadataRequest) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=tuple([self._partition(index, part) for index, part in enumerate(topic.partitions)]),
            topic_authorized_operations=TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED,
        )

    def _partition(self, index: int, part: PartitionImage) -> MetadataResponsePartition:
        error, leader_id, offline = leader_of(
            self.image, part, self._brokers, has_listener_error=self._has_listener_error
        )
        replicas, isr = part.replicas, part.isr
        if offline and self._leaves_out:
            replicas = tuple([each for each in replicas if each in self._brokers])
            isr = tuple([each for each in isr if each in self._brokers])
            error = error or ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader_id,
            leader_epoch=part.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=offline,
        )
