"""AlterClientQuotas, API 49: versions 0 to 1, flexible from 1."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class EntityData(Struct):
    """An element of ``AlterClientQuotasRequestEntryData.entity``."""

    entity_type: str = field(types.string, default="")
    entity_name: str | None = field(types.string, nullable="0+", default="")


class OpData(Struct):
    """An element of ``AlterClientQuotasRequestEntryData.ops``."""

    key: str = field(types.string, default="")
    value: float = field(types.float64, default=0.0)
    remove: bool = field(types.boolean, default=False)


class AlterClientQuotasRequestEntryData(Struct):
    """An element of ``AlterClientQuotasRequest.entries``."""

    entity: tuple[EntityData, ...] = field(types.array(EntityData), default=())
    ops: tuple[OpData, ...] = field(types.array(OpData), default=())


class AlterClientQuotasRequest(Message, kind="request", api_key=49, versions="0-1", flexible="1+"):
    """Request of API 49, versions 0 to 1."""

    entries: tuple[AlterClientQuotasRequestEntryData, ...] = field(
        types.array(AlterClientQuotasRequestEntryData), default=()
    )
    validate_only: bool = field(types.boolean, default=False)


class AlterClientQuotasResponseEntryData(Struct):
    """An element of ``AlterClientQuotasResponse.entries``."""

    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default="")
    entity: tuple[EntityData, ...] = field(types.array(EntityData), default=())


class AlterClientQuotasResponse(Message, kind="response", api_key=49, versions="0-1", flexible="1+"):
    """Response of API 49, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    entries: tuple[AlterClientQuotasResponseEntryData, ...] = field(
        types.array(AlterClientQuotasResponseEntryData), default=()
    )
