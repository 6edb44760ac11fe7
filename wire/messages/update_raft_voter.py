"""UpdateRaftVoter, API 82: version 0, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class Listener(Struct):
    """An element of ``UpdateRaftVoterRequest.listeners``."""

    name: str = field(types.string, default="")
    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)


class KRaftVersionFeature(Struct):
    """The value of ``UpdateRaftVoterRequest.kraft_version_feature``."""

    min_supported_version: int = field(types.int16, default=0)
    max_supported_version: int = field(types.int16, default=0)


class UpdateRaftVoterRequest(Message, kind="request", api_key=82, versions="0", flexible="0+"):
    """Request of API 82, version 0."""

    cluster_id: str | None = field(types.string, nullable="0+", default="")
    current_leader_epoch: int = field(types.int32, default=0)
    voter_id: int = field(types.int32, default=0)
    voter_directory_id: UUID = field(types.uuid, default=ZERO_UUID)
    listeners: tuple[Listener, ...] = field(types.array(Listener), default=())
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature, default=KRaftVersionFeature())


class CurrentLeader(Struct):
    """The value of ``UpdateRaftVoterResponse.current_leader``."""

    leader_id: int = field(types.int32, default=-1)
    leader_epoch: int = field(types.int32, default=-1)
    host: str = field(types.string, default="")
    port: int = field(types.int32, default=0)


class UpdateRaftVoterResponse(Message, kind="response", api_key=82, versions="0", flexible="0+"):
    """Response of API 82, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    current_leader: CurrentLeader = field(CurrentLeader, tag=0, default=CurrentLeader())
