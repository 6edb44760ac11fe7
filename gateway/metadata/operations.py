"""The metadata shard's operation for each request that this node itself sends to the active controller."""

from typing import Any

from odradek.coordinator.metadata.controller.alter_partition import alter_partition
from odradek.coordinator.metadata.controller.broker_heartbeat import broker_heartbeat
from odradek.coordinator.metadata.controller.broker_registration import broker_registration
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.controller.producer_ids import grant_producer_ids
from odradek.coordinator.metadata.controller.shard import Operation
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.wire.messages.alter_partition import AlterPartitionRequest
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.wire.messages.broker_registration import BrokerRegistrationRequest
from odradek.wire.messages.create_topics import CreateTopicsRequest
from odradek.wire.schema.schema import Message


def operation_of(request: Message) -> Operation[Any, Any]:
    """The operation for requests of this type."""
    return _OPERATIONS[type(request)]


_OPERATIONS: dict[type[Message], Operation[Any, Any]] = {
    AllocateProducerIdsRequest: grant_producer_ids,
    AlterPartitionRequest: alter_partition,
    BrokerHeartbeatRequest: broker_heartbeat,
    BrokerRegistrationRequest: broker_registration,
    CreateTopicsRequest: create_topics,
}
