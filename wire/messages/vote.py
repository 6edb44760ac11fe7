"""Vote, API 52: versions 0 to 2, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class VoteRequestPartitionData(Struct):
    """An element of ``VoteRequestTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    replica_epoch: int = field(types.int32, default=0)
    replica_id: int = field(types.int32, default=0)
    replica_directory_id: UUID = field(types.uuid, versions="1+", ignorable=True, default=ZERO_UUID)
    voter_directory_id: UUID = field(types.uuid, versions="1+", ignorable=True, default=ZERO_UUID)
    last_offset_epoch: int = field(types.int32, default=0)
    last_offset: int = field(types.int64, default=0)
    pre_vote: bool = field(types.boolean, versions="2+", default=False)


class VoteRequestTopicData(Struct):
    """An element of ``VoteRequest.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[VoteRequestPartitionData, ...] = field(types.array(VoteRequestPartitionData), default=())


class VoteRequest(Message, kind="request", api_key=52, versions="0-2", flexible="0+"):
    """Request of API 52, versions 0 to 2."""

    cluster_id: str | None = field(types.string, nullable="0+", default=None)
    voter_id: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    topics: tuple[VoteRequestTopicData, ...] = field(types.array(VoteRequestTopicData), default=())


class VoteResponsePartitionData(Struct):
    """An element of ``VoteResponseTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    vote_granted: bool = field(types.boolean, default=False)


class VoteResponseTopicData(Struct):
    """An element of ``VoteResponse.topics``."""

    topic_name: str = field(types.string, default="")
    partitions: tuple[VoteResponsePartitionData, ...] = field(types.array(VoteResponsePartitionData), default=())


class NodeEndpoint(Struct):
    """An element of ``VoteResponse.node_endpoints``."""

    node_id: int = field(types.int32, versions="1+", default=0)
    host: str = field(types.string, versions="1+", default="")
    port: int = field(types.uint16, versions="1+", default=0)


class VoteResponse(Message, kind="response", api_key=52, versions="0-2", flexible="0+"):
    """Response of API 52, versions 0 to 2."""

    error_code: int = field(types.int16, default=0)
    topics: tuple[VoteResponseTopicData, ...] = field(types.array(VoteResponseTopicData), default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), versions="1+", tag=0, default=())
