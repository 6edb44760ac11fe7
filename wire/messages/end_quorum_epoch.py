"""EndQuorumEpoch, API 54: versions 0 to 1, flexible from 1."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class ReplicaInfo(Struct):
    """An element of ``EndQuorumEpochRequestPartitionData.preferred_candidates``."""

    candidate_id: int = field(types.int32, versions="1+", default=0)
    candidate_directory_id: UUID = field(types.uuid, versions="1+", default=ZERO_UUID)


class EndQuorumEpochRequestPartitionData(Struct):
    """An element of ``EndQuorumEpochRequestTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    preferred_successors: tuple[int, ...] = field(types.array(types.int32), versions="0", ignorable=True, default=())
    preferred_candidates: tuple[ReplicaInfo, ...] = field(
        types.array(ReplicaInfo), versions="1+", ignorable=True, default=()
    )


class EndQuorumEpochRequestTopicData(Struct):
    """An element of ``EndQuorumEpochRequest.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[EndQuorumEpochRequestPartitionData, ...] = field(
        types.array(EndQuorumEpochRequestPartitionData), default=()
    )


class LeaderEndpoint(Struct):
    """An element of ``EndQuorumEpochRequest.leader_endpoints``."""

    name: str = field(types.string, versions="1+", default="")
    host: str = field(types.string, versions="1+", default="")
    port: int = field(types.uint16, versions="1+", default=0)


class EndQuorumEpochRequest(Message, kind="request", api_key=54, versions="0-1", flexible="1+"):
    """Request of API 54, versions 0 to 1."""

    cluster_id: str | None = field(types.string, nullable="0+", default=None)
    topics: tuple[EndQuorumEpochRequestTopicData, ...] = field(types.array(EndQuorumEpochRequestTopicData), default=())
    leader_endpoints: tuple[LeaderEndpoint, ...] = field(
        types.array(LeaderEndpoint), versions="1+", ignorable=True, default=()
    )


class EndQuorumEpochResponsePartitionData(Struct):
    """An element of ``EndQuorumEpochResponseTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class EndQuorumEpochResponseTopicData(Struct):
    """An element of ``EndQuorumEpochResponse.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[EndQuorumEpochResponsePartitionData, ...] = field(
        types.array(EndQuorumEpochResponsePartitionData), default=()
    )


class NodeEndpoint(Struct):
    """An element of ``EndQuorumEpochResponse.node_endpoints``."""

    node_id: int = field(types.int32, versions="1+", default=0)
    host: str = field(types.string, versions="1+", default="")
    port: int = field(types.uint16, versions="1+", default=0)


class EndQuorumEpochResponse(Message, kind="response", api_key=54, versions="0-1", flexible="1+"):
    """Response of API 54, versions 0 to 1."""

    error_code: int = field(types.int16, default=0)
    topics: tuple[EndQuorumEpochResponseTopicData, ...] = field(
        types.array(EndQuorumEpochResponseTopicData), default=()
    )
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), versions="1+", tag=0, default=())
