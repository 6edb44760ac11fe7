"""ControllerRegistration, API 70: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class Listener(Struct):
    """An element of ``ControllerRegistrationRequest.listeners``."""

    name: str = field(types.string, default="")
    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)
    security_protocol: int = field(types.int16, default=0)


class Feature(Struct):
    """An element of ``ControllerRegistrationRequest.features``."""

    name: str = field(types.string, default="")
    min_supported_version: int = field(types.int16, default=0)
    max_supported_version: int = field(types.int16, default=0)


class ControllerRegistrationRequest(Message, kind="request", api_key=70, versions="0", flexible="0+"):
    """Request of API 70, version 0."""

    controller_id: int = field(types.int32, default=0)
    incarnation_id: UUID = field(types.uuid, default=ZERO_UUID)
    zk_migration_ready: bool = field(types.boolean, default=False)
    listeners: tuple[Listener, ...] = field(types.array(Listener), default=())
    features: tuple[Feature, ...] = field(types.array(Feature), default=())


class ControllerRegistrationResponse(Message, kind="response", api_key=70, versions="0", flexible="0+"):
    """Response of API 70, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
