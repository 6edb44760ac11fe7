"""FetchSnapshot (API 59), versions 0 to 1: bytes of a metadata snapshot, for a replica that is far behind.

A snapshot that does not exist (any more) is SNAPSHOT_NOT_FOUND, a position outside it POSITION_OUT_OF_RANGE (KIP-630).
"""

from typing import Final

from odradek.gateway.handling.metadata_log import error_of_cluster
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
)

REQUEST: Final = FetchSnapshotRequest
ENDPOINTS_SINCE: Final = 1


async def handle(ctx: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Only the leader answers; any other node returns an error with the leader."""
    quorum = ctx.services.quorum
    error = error_of_cluster(ctx, request.cluster_id)
    if error:
        return FetchSnapshotResponse(error_code=error)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked = quorum.messages.asked_fetch_snapshot(request)
    if asked is None:
        return _unknown(request)
    answer, data = await quorum.fetch_snapshot(asked, request.max_bytes)
    leader = quorum.endpoint_of(answer.leader_id) if ctx.api_version >= ENDPOINTS_SINCE else None
    return quorum.messages.fetch_snapshot_response(answer, data, leader)


def _unknown(request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    topic = request.topics[0]
    part = FetchSnapshotResponsePartitionSnapshot(
        index=topic.partitions[0].partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unaligned_records=b""
    )
    return FetchSnapshotResponse(topics=(FetchSnapshotResponseTopicSnapshot(name=topic.name, partitions=(part,)),))
