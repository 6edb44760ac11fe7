"""ShareFetch, API 78: versions 1 to 2, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID, Records


class AcknowledgementBatch(Struct):
    """An element of ``FetchPartition.acknowledgement_batches``."""

    first_offset: int = field(types.int64, default=0)
    last_offset: int = field(types.int64, default=0)
    acknowledge_types: tuple[int, ...] = field(types.array(types.int8), default=())


class FetchPartition(Struct):
    """An element of ``FetchTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    partition_max_bytes: int = field(types.int32, versions="0", default=0)
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = field(types.array(AcknowledgementBatch), default=())


class FetchTopic(Struct):
    """An element of ``ShareFetchRequest.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[FetchPartition, ...] = field(types.array(FetchPartition), default=())


class ForgottenTopic(Struct):
    """An element of ``ShareFetchRequest.forgotten_topics_data``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class ShareFetchRequest(Message, kind="request", api_key=78, versions="1-2", flexible="0+"):
    """Request of API 78, versions 1 to 2."""

    group_id: str | None = field(types.string, nullable="0+", default=None)
    member_id: str | None = field(types.string, nullable="0+", default="")
    share_session_epoch: int = field(types.int32, default=0)
    max_wait_ms: int = field(types.int32, default=0)
    min_bytes: int = field(types.int32, default=0)
    max_bytes: int = field(types.int32, default=2147483647)
    max_records: int = field(types.int32, versions="1+", default=0)
    batch_size: int = field(types.int32, versions="1+", default=0)
    share_acquire_mode: int = field(types.int8, versions="2+", ignorable=True, default=0)
    is_renew_ack: bool = field(types.boolean, versions="2+", default=False)
    topics: tuple[FetchTopic, ...] = field(types.array(FetchTopic), default=())
    forgotten_topics_data: tuple[ForgottenTopic, ...] = field(types.array(ForgottenTopic), default=())


class LeaderIdAndEpoch(Struct):
    """The value of ``PartitionData.current_leader``."""

    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class AcquiredRecords(Struct):
    """An element of ``PartitionData.acquired_records``."""

    first_offset: int = field(types.int64, default=0)
    last_offset: int = field(types.int64, default=0)
    delivery_count: int = field(types.int16, default=0)


class PartitionData(Struct):
    """An element of ``ShareFetchableTopicResponse.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    acknowledge_error_code: int = field(types.int16, default=0)
    acknowledge_error_message: str | None = field(types.string, nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, default=LeaderIdAndEpoch())
    records: Records = field(types.records_out, nullable="0", default=None)
    acquired_records: tuple[AcquiredRecords, ...] = field(types.array(AcquiredRecords), default=())


class ShareFetchableTopicResponse(Struct):
    """An element of ``ShareFetchResponse.responses``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class NodeEndpoint(Struct):
    """An element of ``ShareFetchResponse.node_endpoints``."""

    node_id: int = field(types.int32, default=0)
    host: str = field(types.string, default="")
    port: int = field(types.int32, default=0)
    rack: str | None = field(types.string, nullable="0+", default=None)


class ShareFetchResponse(Message, kind="response", api_key=78, versions="1-2", flexible="0+"):
    """Response of API 78, versions 1 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(types.int32, versions="1+", default=0)
    responses: tuple[ShareFetchableTopicResponse, ...] = field(types.array(ShareFetchableTopicResponse), default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), default=())
