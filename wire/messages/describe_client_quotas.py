"""DescribeClientQuotas, API 48: versions 0 to 1, flexible from 1."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class ComponentData(Struct):
    """An element of ``DescribeClientQuotasRequest.components``."""

    entity_type: str = field(types.string, default="")
    match_type: int = field(types.int8, default=0)
    match: str | None = field(types.string, nullable="0+", default="")


class DescribeClientQuotasRequest(Message, kind="request", api_key=48, versions="0-1", flexible="1+"):
    """Request of API 48, versions 0 to 1."""

    components: tuple[ComponentData, ...] = field(types.array(ComponentData), default=())
    strict: bool = field(types.boolean, default=False)


class EntityData(Struct):
    """An element of ``EntryData.entity``."""

    entity_type: str = field(types.string, default="")
    entity_name: str | None = field(types.string, nullable="0+", default="")


class ValueData(Struct):
    """An element of ``EntryData.values``."""

    key: str = field(types.string, default="")
    value: float = field(types.float64, default=0.0)


class EntryData(Struct):
    """An element of ``DescribeClientQuotasResponse.entries``."""

    entity: tuple[EntityData, ...] = field(types.array(EntityData), default=())
    values: tuple[ValueData, ...] = field(types.array(ValueData), default=())


class DescribeClientQuotasResponse(Message, kind="response", api_key=48, versions="0-1", flexible="1+"):
    """Response of API 48, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    entries: tuple[EntryData, ...] | None = field(types.array(EntryData), nullable="0+", default=())
