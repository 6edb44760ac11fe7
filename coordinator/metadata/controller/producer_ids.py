"""Blocks of producer ids for brokers (KIP-730)."""

from typing import Final, NamedTuple

from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import ProducerIdsRecord

PRODUCER_ID_BLOCK: Final = 1000
"""How many producer ids a broker gets at a time, as in Kafka."""


MAX_RESERVED: Final = 2**62
"""The largest id that may be reserved; allocation never reaches it. After the largest int64 no id would be left."""


class ProducerIdBlock(NamedTuple):
    """The `size` producer ids from `first` on, which are allocated only once in the life of the cluster."""

    first: int
    size: int


def allocate_producer_ids(context: DecisionContext, count: int) -> tuple[list[Message], ProducerIdBlock]:
    """Allocate a block of `count` ids to the broker that decides."""
    first = context.image.next_producer_id
    broker = context.image.brokers.get(context.node_id)
    record = ProducerIdsRecord(
        broker_id=context.node_id,
        broker_epoch=-1 if broker is None else broker.epoch,
        next_producer_id=first + count,
    )
    return [record], ProducerIdBlock(first, count)


def grant_producer_ids(
    context: DecisionContext, request: AllocateProducerIdsRequest
) -> tuple[list[Message], AllocateProducerIdsResponse]:
    """AllocateProducerIds: allocate a block to the requesting broker. STALE_BROKER_EPOCH for an earlier incarnation."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return [], AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    first = context.image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=first + PRODUCER_ID_BLOCK
    )
    return [record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK)


def reserve_producer_ids(context: DecisionContext, producer_id: int) -> tuple[list[Message], int]:
    """Never allocate an id up to `producer_id`, which another cluster has allocated; returns the smallest free id."""
    free = max(context.image.next_producer_id, producer_id + 1)
    if free == context.image.next_producer_id:
        return [], free
    broker = context.image.brokers.get(context.node_id)
    epoch = -1 if broker is None else broker.epoch
    return [ProducerIdsRecord(broker_id=context.node_id, broker_epoch=epoch, next_producer_id=free)], free
