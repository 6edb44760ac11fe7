"""Produce, API 0: versions 3 to 13, flexible from 9."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class PartitionProduceData(Struct):
    """An element of ``TopicProduceData.partition_data``."""

    index: int = field(types.int32, default=0)
    records: memoryview | None = field(types.records_in, nullable="0+", default=None)


class TopicProduceData(Struct):
    """An element of ``ProduceRequest.topic_data``."""

    name: str = field(types.string, versions="0-12", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="13+", ignorable=True, default=ZERO_UUID)
    partition_data: tuple[PartitionProduceData, ...] = field(types.array(PartitionProduceData), default=())


class ProduceRequest(Message, kind="request", api_key=0, versions="3-13", flexible="9+"):
    """Request of API 0, versions 3 to 13."""

    transactional_id: str | None = field(types.string, versions="3+", nullable="3+", default=None)
    acks: int = field(types.int16, default=0)
    timeout_ms: int = field(types.int32, default=0)
    topic_data: tuple[TopicProduceData, ...] = field(types.array(TopicProduceData), default=())


class BatchIndexAndErrorMessage(Struct):
    """An element of ``PartitionProduceResponse.record_errors``."""

    batch_index: int = field(types.int32, versions="8+", default=0)
    batch_index_error_message: str | None = field(types.string, versions="8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    """The value of ``PartitionProduceResponse.current_leader``."""

    leader_id: int = field(types.int32, versions="10+", default=-1)
    leader_epoch: int = field(types.int32, versions="10+", default=-1)


class PartitionProduceResponse(Struct):
    """An element of ``TopicProduceResponse.partition_responses``."""

    index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    base_offset: int = field(types.int64, default=0)
    log_append_time_ms: int = field(types.int64, versions="2+", ignorable=True, default=-1)
    log_start_offset: int = field(types.int64, versions="5+", ignorable=True, default=-1)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = field(
        types.array(BatchIndexAndErrorMessage), versions="8+", ignorable=True, default=()
    )
    error_message: str | None = field(types.string, versions="8+", nullable="8+", ignorable=True, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, versions="10+", tag=0, default=LeaderIdAndEpoch())


class TopicProduceResponse(Struct):
    """An element of ``ProduceResponse.responses``."""

    name: str = field(types.string, versions="0-12", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="13+", ignorable=True, default=ZERO_UUID)
    partition_responses: tuple[PartitionProduceResponse, ...] = field(types.array(PartitionProduceResponse), default=())


class NodeEndpoint(Struct):
    """An element of ``ProduceResponse.node_endpoints``."""

    node_id: int = field(types.int32, versions="10+", default=0)
    host: str = field(types.string, versions="10+", default="")
    port: int = field(types.int32, versions="10+", default=0)
    rack: str | None = field(types.string, versions="10+", nullable="10+", default=None)


class ProduceResponse(Message, kind="response", api_key=0, versions="3-13", flexible="9+"):
    """Response of API 0, versions 3 to 13."""

    responses: tuple[TopicProduceResponse, ...] = field(types.array(TopicProduceResponse), default=())
    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), versions="10+", tag=0, default=())
