"""ElectLeaders, API 43: versions 0 to 2, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class TopicPartitions(Struct):
    """An element of ``ElectLeadersRequest.topic_partitions``."""

    topic: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class ElectLeadersRequest(Message, kind="request", api_key=43, versions="0-2", flexible="2+"):
    """Request of API 43, versions 0 to 2."""

    election_type: int = field(types.int8, versions="1+", default=0)
    topic_partitions: tuple[TopicPartitions, ...] | None = field(
        types.array(TopicPartitions), nullable="0+", default=()
    )
    timeout_ms: int = field(types.int32, default=60000)


class PartitionResult(Struct):
    """An element of ``ReplicaElectionResult.partition_result``."""

    partition_id: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")


class ReplicaElectionResult(Struct):
    """An element of ``ElectLeadersResponse.replica_election_results``."""

    topic: str = field(types.string, default="")
    partition_result: tuple[PartitionResult, ...] = field(types.array(PartitionResult), default=())


class ElectLeadersResponse(Message, kind="response", api_key=43, versions="0-2", flexible="2+"):
    """Response of API 43, versions 0 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, versions="1+", default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...] = field(types.array(ReplicaElectionResult), default=())
