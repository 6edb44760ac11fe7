"""Control records: transaction markers, and those of the Raft log and its snapshots."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class ControlRecordTypeSchema(Message, kind="data", versions="0"):
    """Version 0."""

    type: int = field(types.int16, default=0)


class EndTxnMarker(Message, kind="data", versions="0"):
    """Version 0."""

    coordinator_epoch: int = field(types.int32, default=0)


class LeaderChangeMessageVoter(Struct):
    """An element of ``LeaderChangeMessage.voters``."""

    voter_id: int = field(types.int32, default=0)
    voter_directory_id: UUID = field(types.uuid, versions="1+", default=ZERO_UUID)


class LeaderChangeMessage(Message, kind="data", versions="0-1", flexible="0+"):
    """Versions 0 to 1."""

    version: int = field(types.int16, default=0)
    leader_id: int = field(types.int32, default=0)
    voters: tuple[LeaderChangeMessageVoter, ...] = field(types.array(LeaderChangeMessageVoter), default=())
    granting_voters: tuple[LeaderChangeMessageVoter, ...] = field(types.array(LeaderChangeMessageVoter), default=())


class SnapshotHeaderRecord(Message, kind="data", versions="0", flexible="0+"):
    """Version 0."""

    version: int = field(types.int16, default=0)
    last_contained_log_timestamp: int = field(types.int64, default=0)


class SnapshotFooterRecord(Message, kind="data", versions="0", flexible="0+"):
    """Version 0."""

    version: int = field(types.int16, default=0)


class KRaftVersionRecord(Message, kind="data", versions="0", flexible="0+"):
    """Version 0."""

    version: int = field(types.int16, default=0)
    kraft_version: int = field(types.int16, default=0)


class Endpoint(Struct):
    """An element of ``VotersRecordVoter.endpoints``."""

    name: str = field(types.string, default="")
    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)


class KRaftVersionFeature(Struct):
    """The value of ``VotersRecordVoter.kraft_version_feature``."""

    min_supported_version: int = field(types.int16, default=0)
    max_supported_version: int = field(types.int16, default=0)


class VotersRecordVoter(Struct):
    """An element of ``VotersRecord.voters``."""

    voter_id: int = field(types.int32, default=0)
    voter_directory_id: UUID = field(types.uuid, default=ZERO_UUID)
    endpoints: tuple[Endpoint, ...] = field(types.array(Endpoint), default=())
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature, default=KRaftVersionFeature())


class VotersRecord(Message, kind="data", versions="0", flexible="0+"):
    """Version 0."""

    version: int = field(types.int16, default=0)
    voters: tuple[VotersRecordVoter, ...] = field(types.array(VotersRecordVoter), default=())


class AbortedTxn(Message, kind="data", versions="0"):
    """Version 0."""

    producer_id: int = field(types.int64, default=0)
    first_offset: int = field(types.int64, default=0)
    last_offset: int = field(types.int64, default=0)
    last_stable_offset: int = field(types.int64, default=0)
