"""DescribeQuorum, API 55: versions 0 to 2, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class DescribeQuorumRequestPartitionData(Struct):
    """An element of ``DescribeQuorumRequestTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)


class DescribeQuorumRequestTopicData(Struct):
    """An element of ``DescribeQuorumRequest.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[DescribeQuorumRequestPartitionData, ...] = field(
        types.array(DescribeQuorumRequestPartitionData), default=()
    )


class DescribeQuorumRequest(Message, kind="request", api_key=55, versions="0-2", flexible="0+"):
    """Request of API 55, versions 0 to 2."""

    topics: tuple[DescribeQuorumRequestTopicData, ...] = field(types.array(DescribeQuorumRequestTopicData), default=())


class ReplicaState(Struct):
    """An element of ``DescribeQuorumResponsePartitionData.current_voters``."""

    replica_id: int = field(types.int32, default=0)
    replica_directory_id: UUID = field(types.uuid, versions="2+", default=ZERO_UUID)
    log_end_offset: int = field(types.int64, default=0)
    last_fetch_timestamp: int = field(types.int64, versions="1+", ignorable=True, default=-1)
    last_caught_up_timestamp: int = field(types.int64, versions="1+", ignorable=True, default=-1)


class DescribeQuorumResponsePartitionData(Struct):
    """An element of ``DescribeQuorumResponseTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, versions="2+", nullable="2+", ignorable=True, default="")
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    high_watermark: int = field(types.int64, default=0)
    current_voters: tuple[ReplicaState, ...] = field(types.array(ReplicaState), default=())
    observers: tuple[ReplicaState, ...] = field(types.array(ReplicaState), default=())


class DescribeQuorumResponseTopicData(Struct):
    """An element of ``DescribeQuorumResponse.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[DescribeQuorumResponsePartitionData, ...] = field(
        types.array(DescribeQuorumResponsePartitionData), default=()
    )


class Listener(Struct):
    """An element of ``Node.listeners``."""

    name: str = field(types.string, versions="2+", default="")
    host: str = field(types.string, versions="2+", default="")
    port: int = field(types.uint16, versions="2+", default=0)


class Node(Struct):
    """An element of ``DescribeQuorumResponse.nodes``."""

    node_id: int = field(types.int32, versions="2+", default=0)
    listeners: tuple[Listener, ...] = field(types.array(Listener), versions="2+", default=())


class DescribeQuorumResponse(Message, kind="response", api_key=55, versions="0-2", flexible="0+"):
    """Response of API 55, versions 0 to 2."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, versions="2+", nullable="2+", ignorable=True, default="")
    topics: tuple[DescribeQuorumResponseTopicData, ...] = field(
        types.array(DescribeQuorumResponseTopicData), default=()
    )
    nodes: tuple[Node, ...] = field(types.array(Node), versions="2+", default=())
