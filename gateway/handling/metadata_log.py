"""Common parts of the quorum's requests: checks, the log of refusals, and Fetch on a controller listener."""

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from odradek.gateway.quorum.changes import VoterChanges

log = logging.getLogger(__name__)

ENDPOINTS_SINCE: Final = 16
_OF_STRANGERS: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.INCONSISTENT_VOTER_SET})


def error_of_cluster(ctx: RequestContext, cluster_id: str | None) -> ErrorCode:
    """INCONSISTENT_CLUSTER_ID for another cluster's request; a node without a cluster id accepts any."""
    own = ctx.services.quorum.cluster_id()
    is_other = bool(own) and cluster_id not in (None, "", own)
    return ErrorCode.INCONSISTENT_CLUSTER_ID if is_other else ErrorCode.NONE


def note_refused(ctx: RequestContext, error: ErrorCode, epoch: int) -> None:
    """Log a request of the quorum that no voter of it sends, with the peer; nothing for other errors."""
    if error in _OF_STRANGERS:
        text = "request of the quorum refused api=%s peer=%s epoch=%d error=%s"
        repeats, peer = ctx.services.repeats, ctx.session.peer
        host = ctx.session.peer_host
        repeats.note((text, ctx.api_key, host), log, logging.WARNING, text, ctx.api_key.name, peer, epoch, error.name)


def voter_changes(ctx: RequestContext) -> "VoterChanges":
    """Changes of the quorum's voters; imported for the first one, so that a broker starts faster."""
    from odradek.gateway.quorum.changes import VoterChanges

    return VoterChanges(ctx.services.quorum)


async def fetch_metadata_log(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """Answer a replica of the metadata log, the only log that a listener for controllers serves."""
    quorum = ctx.services.quorum
    error = error_of_cluster(ctx, request.cluster_id)
    if error:
        return FetchResponse(error_code=error)
    fetch = quorum.messages.asked_fetch(request)
    if fetch is None:
        return _unknown(request)
    part = request.topics[0].partitions[0]
    answer, lease = await quorum.fetch(fetch, request.max_wait_ms, part.partition_max_bytes)
    differs = answer.diverging is not None or answer.snapshot is not None
    if differs and request.cluster_id and not quorum.cluster_id():
        # this node may found a second cluster: a replica of an older one must not truncate its log
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    if lease is not None:
        ctx.on_sent.append(partial(quorum.replica.give_back, lease))
    leader = quorum.endpoint_of(answer.leader_id) if ctx.api_version >= ENDPOINTS_SINCE else None
    records = () if lease is None else lease.chunks
    return quorum.messages.fetch_response(answer, records, leader, quorum.replica.state_or_last.log_start_offset)


def _unknown(request: FetchRequest) -> FetchResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=tuple(
                [PartitionData(partition_index=each.partition, error_code=error) for each in topic.partitions]
            ),
        )
        for topic in request.topics
    ]
    return FetchResponse(responses=tuple(topics))
