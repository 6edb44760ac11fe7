"""AddRaftVoter, API 80: versions 0 to 1, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class Listener(Struct):
    """An element of ``AddRaftVoterRequest.listeners``."""

    name: str = field(types.string, default="")
    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)


class AddRaftVoterRequest(Message, kind="request", api_key=80, versions="0-1", flexible="0+"):
    """Request of API 80, versions 0 to 1."""

    cluster_id: str | None = field(types.string, nullable="0+", default="")
    timeout_ms: int = field(types.int32, default=0)
    voter_id: int = field(types.int32, default=0)
    voter_directory_id: UUID = field(types.uuid, default=ZERO_UUID)
    listeners: tuple[Listener, ...] = field(types.array(Listener), default=())
    ack_when_committed: bool = field(types.boolean, versions="1+", default=True)


class AddRaftVoterResponse(Message, kind="response", api_key=80, versions="0-1", flexible="0+"):
    """Response of API 80, versions 0 to 1."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", ignorable=True, default="")
