"""FindCoordinator, API 10: versions 0 to 6, flexible from 3."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class FindCoordinatorRequest(Message, kind="request", api_key=10, versions="0-6", flexible="3+"):
    """Request of API 10, versions 0 to 6."""

    key: str = field(types.string, versions="0-3", default="")
    key_type: int = field(types.int8, versions="1+", default=0)
    coordinator_keys: tuple[str, ...] = field(types.array(types.string), versions="4+", default=())


class Coordinator(Struct):
    """An element of ``FindCoordinatorResponse.coordinators``."""

    key: str = field(types.string, versions="4+", default="")
    node_id: int = field(types.int32, versions="4+", default=0)
    host: str = field(types.string, versions="4+", default="")
    port: int = field(types.int32, versions="4+", default=0)
    error_code: int = field(types.int16, versions="4+", default=0)
    error_message: str | None = field(types.string, versions="4+", nullable="4+", ignorable=True, default="")


class FindCoordinatorResponse(Message, kind="response", api_key=10, versions="0-6", flexible="3+"):
    """Response of API 10, versions 0 to 6."""

    throttle_time_ms: int = field(types.int32, versions="1+", ignorable=True, default=0)
    error_code: int = field(types.int16, versions="0-3", default=0)
    error_message: str | None = field(types.string, versions="1-3", nullable="1-3", ignorable=True, default="")
    node_id: int = field(types.int32, versions="0-3", default=0)
    host: str = field(types.string, versions="0-3", default="")
    port: int = field(types.int32, versions="0-3", default=0)
    coordinators: tuple[Coordinator, ...] = field(types.array(Coordinator), versions="4+", default=())
