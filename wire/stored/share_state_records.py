"""Records of ``__share_group_state`` (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class ShareSnapshotKey(Message, kind="key", api_key=0, versions="0"):
    """Key of record type 0."""

    group_id: str = field(types.string, versions="0", default="")
    topic_id: UUID = field(types.uuid, versions="0", default=ZERO_UUID)
    partition: int = field(types.int32, versions="0", default=0)


class StateBatch(Struct):
    """An element of ``ShareSnapshotValue.state_batches``."""

    first_offset: int = field(types.int64, default=0)
    last_offset: int = field(types.int64, default=0)
    delivery_state: int = field(types.int8, default=0)
    delivery_count: int = field(types.int16, default=0)


class ShareSnapshotValue(Message, kind="value", api_key=0, versions="0", flexible="0+"):
    """Value of record type 0, version 0."""

    snapshot_epoch: int = field(types.int32, default=0)
    state_epoch: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)
    delivery_complete_count: int = field(types.int32, tag=0, default=-1)
    create_timestamp: int = field(types.int64, default=0)
    write_timestamp: int = field(types.int64, default=0)
    state_batches: tuple[StateBatch, ...] = field(types.array(StateBatch), default=())


class ShareUpdateKey(Message, kind="key", api_key=1, versions="0"):
    """Key of record type 1."""

    group_id: str = field(types.string, versions="0", default="")
    topic_id: UUID = field(types.uuid, versions="0", default=ZERO_UUID)
    partition: int = field(types.int32, versions="0", default=0)


class ShareUpdateValue(Message, kind="value", api_key=1, versions="0", flexible="0+"):
    """Value of record type 1, version 0."""

    snapshot_epoch: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    start_offset: int = field(types.int64, default=0)
    delivery_complete_count: int = field(types.int32, tag=0, default=-1)
    state_batches: tuple[StateBatch, ...] = field(types.array(StateBatch), default=())
