"""DescribeQuorum (API 55), versions 0 to 2: the metadata log's replicas and their progress (KIP-595, KIP-836, KIP-853).

The leader answers; any other node answers NOT_LEADER_OR_FOLLOWER with the leader if it has one.
"""

from collections.abc import Mapping
from typing import Final

from odradek.coordinator.quorum.leadership import ReplicaProgress
from odradek.coordinator.quorum.voters import ReplicaKey
from odradek.gateway.handling.partitions import answer_of_partition
from odradek.gateway.server.context import RequestContext
from odradek.partitions.metadata_log import METADATA_KEY
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
from odradek.wire.schema.types import ZERO_UUID

REQUEST: Final = DescribeQuorumRequest
NODES_SINCE: Final = 2


async def handle(ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe the metadata log, if only that is requested; there is no other quorum."""
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if asked != [(METADATA_KEY.topic, METADATA_KEY.index)]:
        return _unknown(request)
    return await answer_of_partition(_quorum(ctx), _unavailable)


def _unavailable(_: ErrorCode) -> DescribeQuorumResponse:
    """The response while the metadata log's disk fails: clients repeat the request, and the log is soon reloaded."""
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return DescribeQuorumResponse(error_code=error, error_message=error.message)


async def _quorum(ctx: RequestContext) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_KEY.topic, partitions=(_described(ctx),))
    return DescribeQuorumResponse(topics=(topic,), nodes=_nodes(ctx) if ctx.api_version >= NODES_SINCE else ())


def _nodes(ctx: RequestContext) -> tuple[Node, ...]:
    """The voters' controller listeners; without any, the listener of this connection."""
    config = ctx.services.config
    if not config.node.controller_listeners:
        host, port = ctx.services.advertised[ctx.session.listener]
        listener = Listener(name=ctx.session.listener, host=host, port=port)
        return (Node(node_id=config.node_id, listeners=(listener,)),)
    return tuple(
        [
            Node(
                node_id=node,
                listeners=tuple([Listener(name=name, host=at[0], port=at[1]) for name, at in sorted(listed.items())]),
            )
            for node, listed in ctx.services.quorum.known_endpoints.of_voters.items()
        ]
    )


def _described(ctx: RequestContext) -> DescribeQuorumResponsePartitionData:
    core = ctx.services.quorum.core
    if core.leadership is None:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return DescribeQuorumResponsePartitionData(
            partition_index=METADATA_KEY.index,
            error_code=error,
            error_message=error.message,
            leader_id=core.leader_id,
            leader_epoch=core.epoch,
        )
    high_watermark, log_end_offset = ctx.services.controller.extent()
    now_ms = ctx.services.env.wall_ms()
    # unknown if the voters come from the settings
    has_directory = ctx.api_version >= NODES_SINCE and core.voters_in_log is not None
    own = ReplicaState(
        replica_id=core.me.id,
        replica_directory_id=core.me.directory_id if has_directory else ZERO_UUID,
        log_end_offset=log_end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    others = {ReplicaKey(node, each.directory_id): each for node, each in core.leadership.voters.items()}
    voters = [*([own] if core.is_voter else []), *_replicas(ctx, others)]
    observers = core.leadership.active_observers(ctx.services.quorum.now_ms)
    return DescribeQuorumResponsePartitionData(
        partition_index=METADATA_KEY.index,
        leader_id=core.me.id,
        leader_epoch=core.epoch,
        high_watermark=high_watermark,
        current_voters=tuple(sorted(voters, key=lambda each: each.replica_id)),
        observers=tuple(sorted(_replicas(ctx, observers), key=lambda each: each.replica_id)),
    )


def _replicas(ctx: RequestContext, known: Mapping[ReplicaKey, ReplicaProgress]) -> list[ReplicaState]:
    """The other replicas as known to the leader; times are of the wall clock, -1 for events that did not happen."""
    since_ms = ctx.services.env.wall_ms() - ctx.services.env.monotonic_ms()
    return [
        ReplicaState(
            replica_id=key.id,
            replica_directory_id=key.directory_id if ctx.api_version >= NODES_SINCE else ZERO_UUID,
            log_end_offset=progress.end_offset,
            last_fetch_timestamp=-1 if progress.fetched_ms < 0 else progress.fetched_ms + since_ms,
            last_caught_up_timestamp=-1 if progress.caught_up_ms < 0 else progress.caught_up_ms + since_ms,
        )
        for key, progress in known.items()
    ]


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
