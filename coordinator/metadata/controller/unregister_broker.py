"""UnregisterBroker: a broker's registration is removed."""

from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import UnregisterBrokerRecord


def unregister_broker(
    context: DecisionContext, request: UnregisterBrokerRequest
) -> tuple[list[Message], UnregisterBrokerResponse]:
    """Remove a broker's registration. The broker that answers is running, and is refused."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        message = f"There is no broker {request.broker_id}."
        return [], UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
    if broker.id == context.node_id:
        message = f"Broker {broker.id} is running; stop it first."
        return [], UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    return [UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)], UnregisterBrokerResponse()
