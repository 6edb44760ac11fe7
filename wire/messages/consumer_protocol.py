"""The subscription and assignment that consumers put into JoinGroup and SyncGroup.

Each is preceded by its version as an int16; see :mod:`odradek.wire.consumer_metadata`.
"""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import Buffer


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    """An element of ``ConsumerProtocolSubscription.owned_partitions``."""

    topic: str = field(types.string, versions="1+", default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), versions="1+", default=())


class ConsumerProtocolSubscription(Message, kind="data", versions="0-3"):
    """Versions 0 to 3."""

    topics: tuple[str, ...] = field(types.array(types.string), default=())
    user_data: Buffer | None = field(types.data, nullable="0+", default=None)
    owned_partitions: tuple[ConsumerProtocolSubscriptionTopicPartition, ...] = field(
        types.array(ConsumerProtocolSubscriptionTopicPartition), versions="1+", ignorable=True, default=()
    )
    generation_id: int = field(types.int32, versions="2+", ignorable=True, default=-1)
    rack_id: str | None = field(types.string, versions="3+", nullable="3+", ignorable=True, default=None)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    """An element of ``ConsumerProtocolAssignment.assigned_partitions``."""

    topic: str = field(types.string, default="")
    partitions: tuple[int, ...] = field(types.array(types.int32), default=())


class ConsumerProtocolAssignment(Message, kind="data", versions="0-3"):
    """Versions 0 to 3."""

    assigned_partitions: tuple[ConsumerProtocolAssignmentTopicPartition, ...] = field(
        types.array(ConsumerProtocolAssignmentTopicPartition), default=()
    )
    user_data: Buffer | None = field(types.data, nullable="0+", default=None)
