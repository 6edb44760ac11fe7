"""UnregisterBroker: removes a broker's registration."""

from odradek.coordinator.metadata.controller.broker_changes import unregister
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.wire.schema.schema import Message


def unregister_broker(
    context: DecisionContext, request: UnregisterBrokerRequest
) -> tuple[list[Message], UnregisterBrokerResponse]:
    """Remove a broker's registration, and the broker from all ISRs and ELRs.

    The deciding node itself is refused, because it is running, unless it is fenced: then it is now only a controller.

    REQUEST_TIMED_OUT, after which a client tries again, means that its partitions are too many for one operation.
    """
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        message = f"There is no broker {request.broker_id}."
        return [], UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
    if broker.id == context.node_id and not broker.fenced:
        message = f"Broker {broker.id} is running; stop it first."
        return [], UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    change = unregister(context, broker)
    if not change.complete:
        message = f"Broker {broker.id} is being removed from its partitions; try again."
        return change.records, UnregisterBrokerResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=message)
    context.sessions.forget(broker.id)
    return change.records, UnregisterBrokerResponse()


def remove_leftover(context: DecisionContext, broker_id: int) -> tuple[list[Message], bool]:
    """Remove the registration of a node that is not a broker; returns False while partitions remain to be changed."""
    change = unregister(context, context.image.brokers[broker_id])
    return change.records, change.complete
