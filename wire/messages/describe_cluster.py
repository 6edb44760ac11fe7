"""DescribeCluster, API 60: versions 0 to 2, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DescribeClusterRequest(Message, kind="request", api_key=60, versions="0-2", flexible="0+"):
    """Request of API 60, versions 0 to 2."""

    include_cluster_authorized_operations: bool = field(types.boolean, default=False)
    endpoint_type: int = field(types.int8, versions="1+", default=1)
    include_fenced_brokers: bool = field(types.boolean, versions="2+", default=False)


class DescribeClusterBroker(Struct):
    """An element of ``DescribeClusterResponse.brokers``."""

    broker_id: int = field(types.int32, default=0)
    host: str = field(types.string, default="")
    port: int = field(types.int32, default=0)
    rack: str | None = field(types.string, nullable="0+", default=None)
    is_fenced: bool = field(types.boolean, versions="2+", default=False)


class DescribeClusterResponse(Message, kind="response", api_key=60, versions="0-2", flexible="0+"):
    """Response of API 60, versions 0 to 2."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
    endpoint_type: int = field(types.int8, versions="1+", default=1)
    cluster_id: str = field(types.string, default="")
    controller_id: int = field(types.int32, default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = field(types.array(DescribeClusterBroker), default=())
    cluster_authorized_operations: int = field(types.int32, default=-2147483648)
