"""AlterPartition, API 56: versions 2 to 3, flexible from 0."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID


class BrokerState(Struct):
    """An element of ``AlterPartitionRequestPartitionData.new_isr_with_epochs``."""

    broker_id: int = field(types.int32, versions="3+", default=0)
    broker_epoch: int = field(types.int64, versions="3+", default=-1)


class AlterPartitionRequestPartitionData(Struct):
    """An element of ``AlterPartitionRequestTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    new_isr: tuple[int, ...] = field(types.array(types.int32), versions="0-2", default=())
    new_isr_with_epochs: tuple[BrokerState, ...] = field(types.array(BrokerState), versions="3+", default=())
    leader_recovery_state: int = field(types.int8, versions="1+", default=0)
    partition_epoch: int = field(types.int32, default=0)


class AlterPartitionRequestTopicData(Struct):
    """An element of ``AlterPartitionRequest.topics``."""

    topic_id: UUID = field(types.uuid, versions="2+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[AlterPartitionRequestPartitionData, ...] = field(
        types.array(AlterPartitionRequestPartitionData), default=()
    )


class AlterPartitionRequest(Message, kind="request", api_key=56, versions="2-3", flexible="0+"):
    """Request of API 56, versions 2 to 3."""

    broker_id: int = field(types.int32, default=0)
    broker_epoch: int = field(types.int64, default=-1)
    topics: tuple[AlterPartitionRequestTopicData, ...] = field(types.array(AlterPartitionRequestTopicData), default=())


class AlterPartitionResponsePartitionData(Struct):
    """An element of ``AlterPartitionResponseTopicData.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    leader_id: int = field(types.int32, default=0)
    leader_epoch: int = field(types.int32, default=0)
    isr: tuple[int, ...] = field(types.array(types.int32), default=())
    leader_recovery_state: int = field(types.int8, versions="1+", ignorable=True, default=0)
    partition_epoch: int = field(types.int32, default=0)


class AlterPartitionResponseTopicData(Struct):
    """An element of ``AlterPartitionResponse.topics``."""

    topic_id: UUID = field(types.uuid, versions="2+", ignorable=True, default=ZERO_UUID)
    partitions: tuple[AlterPartitionResponsePartitionData, ...] = field(
        types.array(AlterPartitionResponsePartitionData), default=()
    )


class AlterPartitionResponse(Message, kind="response", api_key=56, versions="2-3", flexible="0+"):
    """Response of API 56, versions 2 to 3."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    topics: tuple[AlterPartitionResponseTopicData, ...] = field(
        types.array(AlterPartitionResponseTopicData), default=()
    )
