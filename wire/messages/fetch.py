"""Fetch, API 1: versions 4 to 18, flexible from 12."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID, Records


class ReplicaState(Struct):
    """The value of ``FetchRequest.replica_state``."""

    replica_id: int = field(types.int32, versions="15+", default=-1)
    replica_epoch: int = field(types.int64, versions="15+", default=-1)


class FetchPartition(Struct):
    """An element of ``FetchTopic.partitions``."""

    partition: int = field(types.int32, default=0)
    current_leader_epoch: int = field(types.int32, versions="9+", ignorable=True, default=-1)
    fetch_offset: int = field(types.int64, default=0)
    last_fetched_epoch: int = field(types.int32, versions="12+", default=-1)
    log_start_offset: int = field(types.int64, versions="5+", ignorable=True, default=-1)
    partition_max_bytes: int = field(types.int32, default=0)
    replica_directory_id: UUID = field(types.uuid, versions="17+", tag=0, ignorable=True, default=ZERO_UUID)
    high_watermark: int = field(types.int64, versions="18+", tag=1, ignorable=True, default=9223372036854775807)


class FetchTopic(Struct):
    """An element of ``FetchRequest.topics``."""

    topic: str = field(types.string, versions="0-12", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="13+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[FetchPartition, ...] = field(types.array(FetchPartition), default=())


class ForgottenTopic(Struct):
    """An element of ``FetchRequest.forgotten_topics_data``."""

    topic: str = field(types.string, versions="7-12", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="13+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[int, ...] = field(types.array(types.int32), versions="7+", default=())


class FetchRequest(Message, kind="request", api_key=1, versions="4-18", flexible="12+"):
    """Request of API 1, versions 4 to 18."""

    cluster_id: str | None = field(types.string, versions="12+", nullable="12+", tag=0, ignorable=True, default=None)
    replica_id: int = field(types.int32, versions="0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, versions="15+", tag=1, default=ReplicaState())
    max_wait_ms: int = field(types.int32, default=0)
    min_bytes: int = field(types.int32, default=0)
    max_bytes: int = field(types.int32, versions="3+", ignorable=True, default=2147483647)
    isolation_level: int = field(types.int8, versions="4+", ignorable=True, default=0)
    session_id: int = field(types.int32, versions="7+", ignorable=True, default=0)
    session_epoch: int = field(types.int32, versions="7+", ignorable=True, default=-1)
    topics: tuple[FetchTopic, ...] = field(types.array(FetchTopic), default=())
    forgotten_topics_data: tuple[ForgottenTopic, ...] = field(types.array(ForgottenTopic), versions="7+", default=())
    rack_id: str = field(types.string, versions="11+", ignorable=True, default="")


class EpochEndOffset(Struct):
    """The value of ``PartitionData.diverging_epoch``."""

    epoch: int = field(types.int32, versions="12+", default=-1)
    end_offset: int = field(types.int64, versions="12+", default=-1)


class LeaderIdAndEpoch(Struct):
    """The value of ``PartitionData.current_leader``."""

    leader_id: int = field(types.int32, versions="12+", default=-1)
    leader_epoch: int = field(types.int32, versions="12+", default=-1)


class SnapshotId(Struct):
    """The value of ``PartitionData.snapshot_id``."""

    end_offset: int = field(types.int64, default=-1)
    epoch: int = field(types.int32, default=-1)


class AbortedTransaction(Struct):
    """An element of ``PartitionData.aborted_transactions``."""

    producer_id: int = field(types.int64, versions="4+", default=0)
    first_offset: int = field(types.int64, versions="4+", default=0)


class PartitionData(Struct):
    """An element of ``FetchableTopicResponse.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    high_watermark: int = field(types.int64, default=0)
    last_stable_offset: int = field(types.int64, versions="4+", ignorable=True, default=-1)
    log_start_offset: int = field(types.int64, versions="5+", ignorable=True, default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, versions="12+", tag=0, default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, versions="12+", tag=1, default=LeaderIdAndEpoch())
    snapshot_id: SnapshotId = field(SnapshotId, versions="12+", tag=2, default=SnapshotId())
    aborted_transactions: tuple[AbortedTransaction, ...] | None = field(
        types.array(AbortedTransaction), versions="4+", nullable="4+", ignorable=True, default=()
    )
    preferred_read_replica: int = field(types.int32, versions="11+", default=-1)
    records: Records = field(types.records_out, nullable="0+", default=None)


class FetchableTopicResponse(Struct):
    """An element of ``FetchResponse.responses``."""

    topic: str = field(types.string, versions="0-12", ignorable=True, default="")
    topic_id: UUID = field(types.uuid, versions="13+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[PartitionData, ...] = field(types.array(PartitionData), default=())


class NodeEndpoint(Struct):
    """An element of ``FetchResponse.node_endpoints``."""

    node_id: int = field(types.int32, versions="16+", default=0)
    host: str = field(types.string, versions="16+", default="")
    port: int = field(types.int32, versions="16+", default=0)
    rack: str | None = field(types.string, versions="16+", nullable="16+", default=None)


class FetchResponse(Message, kind="response", api_key=1, versions="4-18", flexible="12+"):
    """Response of API 1, versions 4 to 18."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    error_code: int = field(types.int16, versions="7+", ignorable=True, default=0)
    session_id: int = field(types.int32, versions="7+", default=0)
    responses: tuple[FetchableTopicResponse, ...] = field(types.array(FetchableTopicResponse), default=())
    node_endpoints: tuple[NodeEndpoint, ...] = field(types.array(NodeEndpoint), versions="16+", tag=0, default=())
