"""BrokerRegistration and ControllerRegistration: a node that starts registers with the cluster (KIP-631, KIP-919).

A broker registers fenced, with an incarnation id that is new at every start; its epoch is the offset of the record. The
broker sends the epoch that is stored beside its logs (KIP-966). If that is the epoch of its last registration, its logs
are complete, and it stays in ELRs. Without an epoch, or with another one, its disk may be empty or an older one, and it
is removed from them. In either case the new incarnation leaves all ISRs: it must catch up.
"""

from collections.abc import Mapping

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.broker_changes import BrokerChange, replace_incarnation
from odradek.coordinator.metadata.controller.brokers import founding_records
from odradek.coordinator.metadata.image.image import BrokerImage, MetadataImage
from odradek.coordinator.metadata.sessions import NO_OFFSET
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)


def broker_registration(
    context: DecisionContext, request: BrokerRegistrationRequest
) -> tuple[list[Message], BrokerRegistrationResponse]:
    """Register a broker; the first registration of a cluster adds its first records.

    The response is REQUEST_TIMED_OUT while the partitions of the previous incarnation are too many for one operation:
    the broker tries again, and the operation continues from there.
    """
    try:
        existing = context.image.brokers.get(request.broker_id)
        _check(context, existing, request)
    except RefusedError as refused:
        return [], BrokerRegistrationResponse(error_code=refused.code)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        return _amended(context, existing, request)
    is_clean = existing is not None and request.previous_broker_epoch == existing.epoch
    moved = replace_incarnation(context, request.broker_id, is_clean=is_clean)
    if not moved.complete:
        return moved.records, BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
    return _registered(context, request, moved)


def _registered(
    context: DecisionContext, request: BrokerRegistrationRequest, moved: BrokerChange
) -> tuple[list[Message], BrokerRegistrationResponse]:
    image = context.image
    founding = [] if image.cluster_id else founding_records(context, request.cluster_id)
    before = [*founding, *moved.records]
    epoch = context.next_offset + len(before)
    context.sessions.record_contact(request.broker_id, epoch, NO_OFFSET, context.now_ms)
    return [*before, _record(request, epoch)], BrokerRegistrationResponse(broker_epoch=epoch)


def _amended(
    context: DecisionContext, existing: BrokerImage, request: BrokerRegistrationRequest
) -> tuple[list[Message], BrokerRegistrationResponse]:
    """Register the same incarnation again, for a new listener or after a lost response, with its epoch and state."""
    context.sessions.record_contact(existing.id, existing.epoch, NO_OFFSET, context.now_ms)
    record = _record(
        request, existing.epoch, fenced=existing.fenced, in_controlled_shutdown=existing.in_controlled_shutdown
    )
    return [record], BrokerRegistrationResponse(broker_epoch=existing.epoch)


def _check(context: DecisionContext, existing: BrokerImage | None, request: BrokerRegistrationRequest) -> None:
    """Check a registration, in the order of Kafka's checks. Raises RefusedError."""
    image = context.image
    if image.cluster_id not in ("", request.cluster_id):
        raise RefusedError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {image.cluster_id}.")
    timeout_ms = context.number("broker.session.timeout.ms")
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and context.sessions.is_held(existing, timeout_ms, context.now_ms)
    ):
        raise RefusedError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Broker {existing.id} is running.")
    if request.is_migrating_zk_broker:
        raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers of ZooKeeper cannot register.")
    _check_directories(image, request)
    offered = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    check_features(image, offered)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if len(set(request.log_dirs)) < len(request.log_dirs):
        raise RefusedError(ErrorCode.INVALID_REGISTRATION, "A log directory is named twice.")
    for broker in image.brokers.values():
        if broker.id != request.broker_id and not set(broker.log_dirs).isdisjoint(request.log_dirs):
            raise RefusedError(ErrorCode.INVALID_REGISTRATION, f"Broker {broker.id} has that log directory.")


def check_features(image: MetadataImage, offered: Mapping[str, tuple[int, int]]) -> None:
    """Raise RefusedError (UNSUPPORTED_VERSION) if a node does not support a feature at the finalized level."""
    for name, level in image.features.finalized.items():
        low, high = offered.get(name, (0, 0))
        if not low <= level <= high:
            message = f"{name} is in force at level {level}, but the node supports {low} to {high}."
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, message)


def _record(
    request: BrokerRegistrationRequest, epoch: int, *, fenced: bool = True, in_controlled_shutdown: bool = False
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in request.listeners
        ),
        features=tuple(
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ),
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=request.log_dirs,
    )


def controller_registration(
    context: DecisionContext, request: ControllerRegistrationRequest
) -> tuple[list[Message], ControllerRegistrationResponse]:
    """Register a controller: its endpoints, and the features that it supports."""
    del context
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=tuple(
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in request.listeners
        ),
        features=tuple(
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ),
    )
    return [record], ControllerRegistrationResponse(error_message=None)
