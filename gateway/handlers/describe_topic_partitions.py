"""DescribeTopicPartitions (API 75), version 0: topics in pages of partitions (KIP-966)."""

from typing import Final

from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from odradek.coordinator.metadata.topic_names import error_of_missing
from odradek.gateway.handling.authorized_operations import TOPIC_OPERATIONS
from odradek.gateway.handling.brokers import Reachable, leader_of, reachable
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

REQUEST: Final = DescribeTopicPartitionsRequest


async def handle(ctx: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Describe topics in the order of their names, from the cursor on, up to the limit of partitions."""
    image = ctx.services.metadata.image
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        return _refused(request)
    asked = [topic.name for topic in request.topics] or list(image.topics_by_name)
    names = sorted({name for name in asked if cursor is None or name >= cursor.topic_name})
    limit = max(1, min(request.response_partition_limit, ctx.services.config.max_request_partition_size_limit))
    page = _Page(limit, image, reachable(image, ctx.session.listener))
    for name in names:
        await ctx.take_turns()
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic = image.topic(name)
        if topic is None:
            page.add_missing(name, error_of_missing(name))
        else:
            page.add(topic, first)
        if page.next_cursor is not None:
            break
    return DescribeTopicPartitionsResponse(topics=tuple(page.topics), next_cursor=page.next_cursor)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    topics = [
        DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
        for topic in request.topics
    ]
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


class _Page:
    """A response that is being filled."""

    def __init__(self, limit: int, image: MetadataImage, brokers: Reachable) -> None:
        self._left = limit
        self._image = image
        self._brokers = brokers
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None

    def add_missing(self, name: str, error: ErrorCode) -> None:
        self.topics.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=error, name=name, topic_authorized_operations=TOPIC_OPERATIONS
            )
        )

    def add(self, topic: TopicImage, first: int) -> None:
        """Add the topic's partitions from `first` on; if not all fit, the next page begins with the others."""
        if self._left == 0:
            self.next_cursor = Cursor(topic_name=topic.name, partition_index=first)
            return
        end = min(len(topic.partitions), first + self._left)
        described = [
            _partition(self._image, self._brokers, index, topic.partitions[index]) for index in range(first, end)
        ]
        self._left -= len(described)
        self.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=tuple(described),
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        if end < len(topic.partitions):
            self.next_cursor = Cursor(topic_name=topic.name, partition_index=end)


def _partition(
    image: MetadataImage, brokers: Reachable, index: int, part: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    """As in Kafka, a partition without a reachable leader has leader id -1, and no error."""
    view = leader_of(image, part, brokers, has_listener_error=True)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=view.leader_id,
        leader_epoch=part.leader_epoch,
        replica_nodes=tuple(part.replicas),
        isr_nodes=tuple(part.isr),
        eligible_leader_replicas=tuple(part.elr),
        last_known_elr=tuple(part.last_known_elr),
        offline_replicas=view.offline,
    )
