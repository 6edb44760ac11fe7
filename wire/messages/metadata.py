"""Metadata, API 3: versions 0 to 13, flexible from 9."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class MetadataRequestTopic(Struct):
    """An element of ``MetadataRequest.topics``."""

    topic_id: UUID = field(types.uuid, versions="10+", ignorable=True, default=ZERO_UUID)
    name: str | None = field(types.string, nullable="10+", default="")


class MetadataRequest(Message, kind="request", api_key=3, versions="0-13", flexible="9+"):
    """Request of API 3, versions 0 to 13."""

    topics: tuple[MetadataRequestTopic, ...] | None = field(
        types.array(MetadataRequestTopic), nullable="1+", default=()
    )
    allow_auto_topic_creation: bool = field(types.boolean, versions="4+", default=True)
    include_cluster_authorized_operations: bool = field(types.boolean, versions="8-10", default=False)
    include_topic_authorized_operations: bool = field(types.boolean, versions="8+", default=False)


class MetadataResponseBroker(Struct):
    """An element of ``MetadataResponse.brokers``."""

    node_id: int = field(types.int32, default=0)
    host: str = field(types.string, default="")
    port: int = field(types.int32, default=0)
    rack: str | None = field(types.string, versions="1+", nullable="1+", ignorable=True, default=None)


class MetadataResponsePartition(Struct):
    """An element of ``MetadataResponseTopic.partitions``."""

    error_code: int = field(types.int16, default=0)
    partition_index: int = field(types.int32, default=0)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, versions="7+", ignorable=True, default=-1)
    replica_nodes: tuple[int, ...] = field(types.array(types.int32), default=())
    isr_nodes: tuple[int, ...] = field(types.array(types.int32), default=())
    offline_replicas: tuple[int, ...] = field(types.array(types.int32), versions="5+", ignorable=True, default=())


class MetadataResponseTopic(Struct):
    """An element of ``MetadataResponse.topics``."""

    error_code: int = field(types.int16, default=0)
    name: str | None = field(types.string, nullable="12+", default="")
    topic_id: UUID = field(types.uuid, versions="10+", ignorable=True, default=ZERO_UUID)
    is_internal: bool = field(types.boolean, versions="1+", ignorable=True, default=False)
    partitions: tuple[MetadataResponsePartition, ...] = field(types.array(MetadataResponsePartition), default=())
    topic_authorized_operations: int = field(types.int32, versions="8+", default=-2147483648)


class MetadataResponse(Message, kind="response", api_key=3, versions="0-13", flexible="9+"):
    """Response of API 3, versions 0 to 13."""

    throttle_time_ms: int = field(types.int32, versions="3+", ignorable=True, default=0)
    brokers: tuple[MetadataResponseBroker, ...] = field(types.array(MetadataResponseBroker), default=())
    cluster_id: str | None = field(types.string, versions="2+", nullable="2+", ignorable=True, default=None)
    controller_id: int = field(types.int32, versions="1+", ignorable=True, default=-1)
    topics: tuple[MetadataResponseTopic, ...] = field(types.array(MetadataResponseTopic), default=())
    cluster_authorized_operations: int = field(types.int32, versions="8-10", default=-2147483648)
    error_code: int = field(types.int16, versions="13+", ignorable=True, default=0)
