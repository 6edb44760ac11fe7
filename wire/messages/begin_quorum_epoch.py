"""BeginQuorumEpoch, API 53: versions 0 to 1, flexible from 1."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class BeginQuorumEpochRequestPartitionData(Struct):
    """An element of ``BeginQuorumEpochRequestTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    voter_directory_id: UUID = field(types.uuid, versions="1+", ignorable=True, default=ZERO_UUID)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class BeginQuorumEpochRequestTopicData(Struct):
    """An element of ``BeginQuorumEpochRequest.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[BeginQuorumEpochRequestPartitionData, ...] = field(
        types.array(BeginQuorumEpochRequestPartitionData), default=()
    )


class LeaderEndpoint(Struct):
    """An element of ``BeginQuorumEpochRequest.leader_endpoints``."""

    name: str = field(types.string, versions="1+", default="")
    host: str = field(types.string, versions="1+", default="")
    port: int = field(types.uint16, versions="1+", default=0)


class BeginQuorumEpochRequest(Message, kind="request", api_key=53, versions="0-1", flexible="1+"):
    """Request of API 53, versions 0 to 1."""

    cluster_id: str | None = field(types.string, nullable="0+", default=None)
    voter_id: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    topics: tuple[BeginQuorumEpochRequestTopicData, ...] = field(
        types.array(BeginQuorumEpochRequestTopicData), default=()
    )
    leader_endpoints: tuple[LeaderEndpoint, ...] = field(
        types.array(LeaderEndpoint), versions="1+", ignorable=True, default=()
    )


class BeginQuorumEpochResponsePartitionData(Struct):
    """An element of ``BeginQuorumEpochResponseTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class BeginQuorumEpochResponseTopicData(Struct):
    """An element of ``BeginQuorumEpochResponse.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[BeginQuorumEpochResponsePartitionData, ...] = field(
        types.array(BeginQuorumEpochResponsePartitionData), default=()
    )


class NodeEndpoint(Struct):
    """An element of ``BeginQuorumEpochResponse.node_endpoints``."""

    node_id: int = field(types.int32, versions="1+", default=0)
    host: str = field(types.string, versions="1+", default="")
    port: int = field(types.uint16, versions="1+", default=0)


class BeginQuorumEpochResponse(Message, kind="response", api_key=53, versions="0-1", flexible="1+"):
    """Response of API 53, versions 0 to 1."""

    error_code: int = field(types.int16, default=0)
    topics: tuple[BeginQuorumEpochResponseTopicData, ...] = field(
        types.array(BeginQuorumEpochResponseTopicData), default=()
    )
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), versions="1+", tag=0, default=())
