"""RemoveRaftVoter, API 81: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, field
from odradek.wire.schema.types import ZERO_UUID


class RemoveRaftVoterRequest(Message, kind="request", api_key=81, versions="0", flexible="0+"):
    """Request of API 81, version 0."""

    cluster_id: str | None = field(types.string, nullable="0+", default="")
    voter_id: int = field(types.int32, default=0)
    voter_directory_id: UUID = field(types.uuid, default=ZERO_UUID)


class RemoveRaftVoterResponse(Message, kind="response", api_key=81, versions="0", flexible="0+"):
    """Response of API 81, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", ignorable=True, default="")
