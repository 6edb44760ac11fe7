"""Records of ``__transaction_state``."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class TransactionLogKey(Message, kind="key", api_key=0, versions="0"):
    """Key of record type 0."""

    transactional_id: str = field(types.string, versions="0", default="")


class PartitionsSchema(Struct):
    """An element of ``TransactionLogValue.transaction_partitions``."""

    topic: str = field(types.string, default="")
    partition_ids: tuple[int, ...] = field(types.array(types.int32), default=())


class TransactionLogValue(Message, kind="value", api_key=0, versions="0-1", flexible="1+"):
    """Value of record type 0, versions 0 to 1."""

    producer_id: int = field(types.int64, default=0)
    previous_producer_id: int = field(types.int64, versions="1+", tag=0, default=-1)
    next_producer_id: int = field(types.int64, versions="1+", tag=1, default=-1)
    producer_epoch: int = field(types.int16, default=0)
    next_producer_epoch: int = field(types.int16, versions="1+", tag=3, default=-1)
    transaction_timeout_ms: int = field(types.int32, default=0)
    transaction_status: int = field(types.int8, default=0)
    transaction_partitions: tuple[PartitionsSchema, ...] | None = field(
        types.array(PartitionsSchema), nullable="0+", default=()
    )
    transaction_last_update_timestamp_ms: int = field(types.int64, default=0)
    transaction_start_timestamp_ms: int = field(types.int64, default=0)
    client_transaction_version: int = field(types.int16, versions="1+", tag=2, default=0)
