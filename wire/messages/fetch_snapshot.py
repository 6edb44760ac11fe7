"""FetchSnapshot, API 59: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID, Records


class SnapshotId(Struct):
    """The value of ``FetchSnapshotRequestPartitionSnapshot.snapshot_id``."""

    end_offset: int = field(types.int64, default=0)
    epoch: int = field(types.int32, default=0)


class FetchSnapshotRequestPartitionSnapshot(Struct):
    """An element of ``FetchSnapshotRequestTopicSnapshot.partitions``."""

    partition: int = field(types.int32, default=0)
    current_leader_epoch: int = field(types.int32, default=0)
    snapshot_id: SnapshotId = field(SnapshotId, default=SnapshotId())
    position: int = field(types.int64, default=0)
    replica_directory_id: UUID = field(types.uuid, versions="1+", tag=0, ignorable=True, default=ZERO_UUID)


class FetchSnapshotRequestTopicSnapshot(Struct):
    """An element of ``FetchSnapshotRequest.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[FetchSnapshotRequestPartitionSnapshot, ...] = field(
        types.array(FetchSnapshotRequestPartitionSnapshot), default=()
    )


class FetchSnapshotRequest(Message, kind="request", api_key=59, versions="0-1", flexible="0+"):
    """Request of API 59, versions 0 to 1."""

    cluster_id: str | None = field(types.string, nullable="0+", tag=0, default=None)
    replica_id: int = field(types.int32, default=-1)
    max_bytes: int = field(types.int32, default=2147483647)
    topics: tuple[FetchSnapshotRequestTopicSnapshot, ...] = field(
        types.array(FetchSnapshotRequestTopicSnapshot), default=()
    )


class LeaderIdAndEpoch(Struct):
    """The value of ``FetchSnapshotResponsePartitionSnapshot.current_leader``."""

    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)


class FetchSnapshotResponsePartitionSnapshot(Struct):
    """An element of ``FetchSnapshotResponseTopicSnapshot.partitions``."""

    index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    snapshot_id: SnapshotId = field(SnapshotId, default=SnapshotId())
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, tag=0, default=LeaderIdAndEpoch())
    size: int = field(types.int64, default=0)
    position: int = field(types.int64, default=0)
    unaligned_records: Records = field(types.records_out, default=None)


class FetchSnapshotResponseTopicSnapshot(Struct):
    """An element of ``FetchSnapshotResponse.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[FetchSnapshotResponsePartitionSnapshot, ...] = field(
        types.array(FetchSnapshotResponsePartitionSnapshot), default=()
    )


class NodeEndpoint(Struct):
    """An element of ``FetchSnapshotResponse.node_endpoints``."""

    node_id: int = field(types.int32, versions="1+", default=0)
    host: str = field(types.string, versions="1+", default="")
    port: int = field(types.uint16, versions="1+", default=0)


class FetchSnapshotResponse(Message, kind="response", api_key=59, versions="0-1", flexible="0+"):
    """Response of API 59, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, ignorable=True, default=0)
    error_code: int = field(types.int16, default=0)
    topics: tuple[FetchSnapshotResponseTopicSnapshot, ...] = field(
        types.array(FetchSnapshotResponseTopicSnapshot), default=()
    )
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), versions="1+", tag=0, default=())
