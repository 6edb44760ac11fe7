"""ShareAcknowledge, API 79: versions 1 to 2, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class AcknowledgementBatch(Struct):
    """An element of ``AcknowledgePartition.acknowledgement_batches``."""

    first_offset: int = field(types.int64, default=0)
    last_offset: int = field(types.int64, default=0)
    acknowledge_types: tuple[int, ...] = field(types.array(types.int8), default=())


class AcknowledgePartition(Struct):
    """An element of ``AcknowledgeTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = field(types.array(AcknowledgementBatch), default=())


class AcknowledgeTopic(Struct):
    """An element of ``ShareAcknowledgeRequest.topics``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[AcknowledgePartition, ...] = field(types.array(AcknowledgePartition), default=())


class ShareAcknowledgeRequest(Message, kind="request", api_key=79, versions="1-2", flexible="0+"):
    """Request of API 79, versions 1 to 2."""

    group_id: str | None = field(types.string, nullable="0+", default=None)
    member_id: str | None = field(types.string, nullable="0+", default="")
    share_session_epoch: int = field(types.int32, default=0)
    is_renew_ack: bool = field(types.boolean, versions="2+", default=False)
    topics: tuple[AcknowledgeTopic, ...] = field(types.array(AcknowledgeTopic), default=())


class LeaderIdAndEpoch(Struct):
    """The value of ``PartitionData.current_leader``."""

    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class PartitionData(Struct):
    """An element of ``ShareAcknowledgeTopicResponse.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, default=LeaderIdAndEpoch())


class ShareAcknowledgeTopicResponse(Struct):
    """An element of ``ShareAcknowledgeResponse.responses``."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class NodeEndpoint(Struct):
    """An element of ``ShareAcknowledgeResponse.node_endpoints``."""

    node_id: int = field(types.int32, default=0)
    host: str = field(types.string, default="")
    port: int = field(types.int32, default=0)
    rack: str | None = field(types.string, nullable="0+", default=None)


class ShareAcknowledgeResponse(Message, kind="response", api_key=79, versions="1-2", flexible="0+"):
    """Response of API 79, versions 1 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(types.int32, versions="2+", ignorable=True, default=0)
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = field(types.array(ShareAcknowledgeTopicResponse), default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), default=())
