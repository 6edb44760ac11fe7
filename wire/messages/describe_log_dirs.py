"""DescribeLogDirs, API 35: versions 1 to 5, flexible from 2."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class DescribableLogDirTopic(Struct):
    """An element of ``DescribeLogDirsRequest.topics``."""

    topic: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class DescribeLogDirsRequest(Message, kind="request", api_key=35, versions="1-5", flexible="2+"):
    """Request of API 35, versions 1 to 5."""

    topics: tuple[DescribableLogDirTopic, ...] | None = field(
        types.array(DescribableLogDirTopic), nullable="0+", default=()
    )


class DescribeLogDirsPartition(Struct):
    """An element of ``DescribeLogDirsTopic.partitions``."""

    partition_index: int = field(types.int32, default=0)
    partition_size: int = field(types.int64, default=0)
    offset_lag: int = field(types.int64, default=0)
    is_future_key: bool = field(types.boolean, default=False)


class DescribeLogDirsTopic(Struct):
    """An element of ``DescribeLogDirsResult.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[DescribeLogDirsPartition, ...] = field(types.array(DescribeLogDirsPartition), default=())


class DescribeLogDirsResult(Struct):
    """An element of ``DescribeLogDirsResponse.results``."""

    error_code: int = field(types.int16, default=0)
    log_dir: str = field(types.string, default="")
    topics: tuple[DescribeLogDirsTopic, ...] = field(types.array(DescribeLogDirsTopic), default=())
    total_bytes: int = field(types.int64, versions="4+", ignorable=True, default=-1)
    usable_bytes: int = field(types.int64, versions="4+", ignorable=True, default=-1)
    is_cordoned: bool = field(types.boolean, versions="5+", ignorable=True, default=False)


class DescribeLogDirsResponse(Message, kind="response", api_key=35, versions="1-5", flexible="2+"):
    """Response of API 35, versions 1 to 5."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, versions="3+", ignorable=True, default=0)
    results: tuple[DescribeLogDirsResult, ...] = field(types.array(DescribeLogDirsResult), default=())
