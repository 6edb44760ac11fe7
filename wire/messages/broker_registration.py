"""BrokerRegistration, API 62: versions 0 to 4, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class Listener(Struct):
    """An element of ``BrokerRegistrationRequest.listeners``."""

    name: str = field(types.string, default="")
    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)
    security_protocol: int = field(types.int16, default=0)


class Feature(Struct):
    """An element of ``BrokerRegistrationRequest.features``."""

    name: str = field(types.string, default="")
    min_supported_version: int = field(types.int16, default=0)
    max_supported_version: int = field(types.int16, default=0)


class BrokerRegistrationRequest(Message, kind="request", api_key=62, versions="0-4", flexible="0+"):
    """Request of API 62, versions 0 to 4."""

    broker_id: int = field(types.int32, default=0)
    cluster_id: str = field(types.string, default="")
    incarnation_id: UUID = field(types.uuid, default=ZERO_UUID)
    listeners: tuple[Listener, ...] = field(types.array(Listener), default=())
    features: tuple[Feature, ...] = field(types.array(Feature), default=())
    rack: str | None = field(types.string, nullable="0+", default="")
    is_migrating_zk_broker: bool = field(types.boolean, versions="1+", default=False)
    log_dirs: tuple[UUID, ...] = field(types.array(types.uuid), versions="2+", ignorable=True, default=())
    previous_broker_epoch: int = field(types.int64, versions="3+", ignorable=True, default=-1)


class BrokerRegistrationResponse(Message, kind="response", api_key=62, versions="0-4", flexible="0+"):
    """Response of API 62, versions 0 to 4."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    broker_epoch: int = field(types.int64, default=-1)
