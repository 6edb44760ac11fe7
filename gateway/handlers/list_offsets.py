"""ListOffsets (API 2), versions 1 to 11: earliest, latest, by timestamp, and the largest timestamp (KIP-734).

The special timestamps are answered from memory, except for the largest timestamp. That one, and any other timestamp,
is looked up in the store, and the record is then found in its batch.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.gateway.handling.opening import open_all
from odradek.gateway.handling.partitions import answer_of_partition
from odradek.gateway.replication.replica import Replica
from odradek.gateway.server.context import RequestContext
from odradek.partitions.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    offset_in_batches,
)
from odradek.partitions.results import NO_LEADER_EPOCH, Isolation, NeedsScan, OffsetFound, Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.records.batch import iter_headers

REQUEST: Final = ListOffsetsRequest
SCAN_BYTES: Final = 64 * 1024
"""The number of bytes read at a time to find a record; one batch is almost always enough."""
LEADER_EPOCH_SINCE: Final = 4
SPECIAL_SINCE: Final = {
    EARLIEST_TIMESTAMP: 1,
    LATEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The version that introduced each special timestamp; all of them are negative, and no other timestamps are."""


async def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Handle each partition separately."""
    # A follower needs the end offset of what it may fetch, committed or not.
    isolation = Isolation.LOG_END if request.replica_id >= 0 else ctx.isolation(request.isolation_level)
    asked = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    await open_all(ctx, (ctx.services.replicas.get(*topic_partition) for topic_partition in asked))
    topics: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        answers: dict[int, ListOffsetsPartitionResponse] = {}
        for part in topic.partitions:
            index = part.partition_index
            if asked[topic.name, index] > 1:
                answers[index] = _error(part, ErrorCode.INVALID_REQUEST)
            else:
                found = _find(ctx, topic.name, part, isolation)
                answers[index] = await answer_of_partition(found, partial(_error, part))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers.values())))
    return ListOffsetsResponse(topics=tuple(topics))


async def _find(
    ctx: RequestContext, topic: str, part: ListOffsetsPartition, isolation: Isolation
) -> ListOffsetsPartitionResponse:
    await ctx.take_turns()
    if part.timestamp < 0 and ctx.api_version < SPECIAL_SINCE.get(part.timestamp, ctx.api_version + 1):
        return _error(part, ErrorCode.UNSUPPORTED_VERSION)
    replica = await ctx.services.replicas.leader(topic, part.partition_index)
    found = replica.role.list_offset(
        part.timestamp, isolation=isolation, current_leader_epoch=part.current_leader_epoch
    )
    if isinstance(found, NeedsScan):
        found = await _scan(ctx, replica, found)
    if isinstance(found, Rejected):
        return _error(part, found.error)
    return ListOffsetsPartitionResponse(
        partition_index=part.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if ctx.api_version >= LEADER_EPOCH_SINCE else NO_LEADER_EPOCH,
    )


def _error(part: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=error)


async def _scan(ctx: RequestContext, replica: Replica, scan: NeedsScan) -> OffsetFound | Rejected:
    if scan.of_max_timestamp:
        offset = await replica.look_up(lambda part: part.find_max_timestamp())
    else:
        offset = await replica.look_up(lambda part: part.find_by_timestamp(scan.timestamp_ms))
    if offset is not None:
        offset = max(offset, scan.start_offset)  # the store's first batch may begin below the log start
    while offset is not None and offset < scan.limit_offset:
        lease = await replica.read(offset, replica.log.log_end_offset, SCAN_BYTES)
        try:
            found = await ctx.services.inspection.run(partial(offset_in_batches, lease.chunks, scan))
            if found is not None:
                return found
            offset = _after(lease.chunks)
        finally:
            replica.give_back(lease)
    return scan.absent


def _after(chunks: Sequence[memoryview]) -> int | None:
    """The offset after the last batch of some chunks, None if there are none."""
    return max((header.next_offset for header in iter_headers(chunks[-1])), default=None) if chunks else None
