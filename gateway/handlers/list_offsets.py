"""ListOffsets (API 2), versions 1 to 11: earliest, latest, by timestamp, and the largest timestamp (KIP-734).

The special timestamps are answered from memory. A timestamp is looked up in the store's time index, and the record is
then found in its batch.
"""

from typing import Final

from gateway.context import RequestContext
from gateway.runtime.replica import Replica, ReplicaGoneError, ReplicaOfflineError
from partitions.offsets import offset_in_batches
from partitions.results import OFFSET_NOT_FOUND, Isolation, NeedsScan, OffsetFound, Rejected
from wire.errors import ErrorCode
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

REQUEST: Final = ListOffsetsRequest
ONE_BATCH_BYTES: Final = 1


async def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer each partition by itself."""
    isolation = Isolation(request.isolation_level)
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple([await _partition(ctx, topic.name, part, isolation) for part in topic.partitions]),
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=tuple(topics))


async def _partition(
    ctx: RequestContext, topic: str, part: ListOffsetsPartition, isolation: Isolation
) -> ListOffsetsPartitionResponse:
    replica = ctx.services.replicas.get(topic, part.partition_index)
    if replica is None:
        return _error(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        await replica.ensure_open()
        found = replica.log.list_offset(
            part.timestamp, isolation=isolation, current_leader_epoch=part.current_leader_epoch
        )
        if isinstance(found, NeedsScan):
            found = await _scan(replica, found)
    except ReplicaOfflineError:
        return _error(part, ErrorCode.KAFKA_STORAGE_ERROR)
    except ReplicaGoneError:
        return _error(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(found, Rejected):
        return _error(part, found.error)
    return ListOffsetsPartitionResponse(
        partition_index=part.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _error(part: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=error)


async def _scan(replica: Replica, scan: NeedsScan) -> OffsetFound | Rejected:
    if scan.of_max_timestamp:
        batch_at = await replica.look_up(lambda part: part.find_max_timestamp())
    else:
        batch_at = await replica.look_up(lambda part: part.find_by_timestamp(scan.timestamp_ms))
    if batch_at is None or batch_at >= scan.limit_offset:
        return scan.refusal or OFFSET_NOT_FOUND
    lease = await replica.read(batch_at, replica.log.log_end_offset, ONE_BATCH_BYTES)
    try:
        found = offset_in_batches(lease.chunks, scan)
    finally:
        replica.give_back(lease)
    return found or scan.refusal or OFFSET_NOT_FOUND
