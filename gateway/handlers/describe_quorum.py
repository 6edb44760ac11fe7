"""DescribeQuorum (API 55), versions 0 to 2: who keeps the metadata log, and how far (KIP-595, KIP-836, KIP-853).

One broker keeps it, and answers for it on the listener that the client already uses.
"""

from typing import Final

from odradek.gateway.handling.partitions import answer_of_partition
from odradek.gateway.metadata.metadata_log import METADATA_KEY, METADATA_LEADER_EPOCH
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

REQUEST: Final = DescribeQuorumRequest
NODES_SINCE: Final = 2


async def handle(ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe the metadata log, when it alone is asked for; there is no other quorum."""
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if asked != [(METADATA_KEY.topic, METADATA_KEY.index)]:
        return _unknown(request)
    return await answer_of_partition(_quorum(ctx), _unavailable)


def _unavailable(_: ErrorCode) -> DescribeQuorumResponse:
    """While the disk of the metadata log fails; the log is loaded again before long, and clients repeat the request."""
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return DescribeQuorumResponse(error_code=error, error_message=error.message)


async def _quorum(ctx: RequestContext) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_KEY.topic, partitions=(_described(ctx),))
    host, port = ctx.services.advertised[ctx.session.listener]
    listener = Listener(name=ctx.session.listener, host=host, port=port)
    node = Node(node_id=ctx.services.config.node_id, listeners=(listener,))
    return DescribeQuorumResponse(topics=(topic,), nodes=(node,) if ctx.api_version >= NODES_SINCE else ())


def _described(ctx: RequestContext) -> DescribeQuorumResponsePartitionData:
    high_watermark, log_end_offset = ctx.services.controller.extent()
    now_ms = ctx.services.env.wall_ms()
    voter = ReplicaState(
        replica_id=ctx.services.config.node_id,
        log_end_offset=log_end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return DescribeQuorumResponsePartitionData(
        partition_index=METADATA_KEY.index,
        leader_id=ctx.services.config.node_id,
        leader_epoch=METADATA_LEADER_EPOCH,
        high_watermark=high_watermark,
        current_voters=(voter,),
    )


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                DescribeQuorumResponsePartitionData(
                    partition_index=part.partition_index, error_code=error, error_message=error.message
                )
                for part in topic.partitions
            ),
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(topics=tuple(topics))
