"""BrokerHeartbeat: extends a broker's session, and unfences, fences or releases the broker (KIP-631).

```
               caught up with its registration, no fence requested
    ┌────────┐ ───────────────────────────────────────────────► ┌──────────┐
    │ FENCED │                                                  │ UNFENCED │
    └────────┘ ◄─────────────────────────────────────────────── └──────────┘
        ▲        fence requested, or session expired; or             │ shutdown requested,
        │        shutdown requested, leads no partition              ▼ leads a partition
        │                                                   ┌─────────────────────┐
        └────────────────────────────────────────────────── │ CONTROLLED SHUTDOWN │
          leads no partition, and all active brokers        └─────────────────────┘
          have the metadata with the new leaders
```

A fenced broker may stop at once. If a change concerns more partitions than one operation may change, the next heartbeat
or the shard's next `on_time` continues it.
"""

from odradek.coordinator.metadata.controller.broker_changes import begin_shutdown, fence, leads_any, unfence
from odradek.coordinator.metadata.image.image import BrokerImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.wire.schema.schema import Message

Decision = tuple[list[Message], BrokerHeartbeatResponse]


def broker_heartbeat(context: DecisionContext, request: BrokerHeartbeatRequest) -> Decision:
    """Record the contact, and decide on the broker's next state. STALE_BROKER_EPOCH for an earlier incarnation."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return [], BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    context.sessions.record_contact(broker.id, broker.epoch, request.current_metadata_offset, context.now_ms)
    if broker.fenced:
        return _of_fenced(context, broker, request)
    if broker.in_controlled_shutdown:
        return _of_stopping(context, broker, request)
    return _of_unfenced(context, broker, request)


def _of_fenced(context: DecisionContext, broker: BrokerImage, request: BrokerHeartbeatRequest) -> Decision:
    if request.want_shut_down:
        return [], _answer(broker, request, should_shut_down=True)
    if request.want_fence or not _is_caught_up(broker, request):
        return [], _answer(broker, request)
    change = unfence(context, broker)
    context.sessions.elections_left |= not change.complete
    return change.records, _answer(broker, request, fenced=False)


def _of_unfenced(context: DecisionContext, broker: BrokerImage, request: BrokerHeartbeatRequest) -> Decision:
    if request.want_shut_down and not request.want_fence and leads_any(context.image, broker.id):
        return _leaders_moved(context, broker), _answer(broker, request, fenced=False)
    if request.want_fence or request.want_shut_down:
        return _fenced(context, broker, request)
    return [], _answer(broker, request, fenced=False)


def _of_stopping(context: DecisionContext, broker: BrokerImage, request: BrokerHeartbeatRequest) -> Decision:
    records = _leaders_moved(context, broker)
    if records or leads_any(context.image, broker.id):
        return records, _answer(broker, request, fenced=False)
    if not context.sessions.may_stop(broker, context.image.brokers):
        return [], _answer(broker, request, fenced=False)
    return _fenced(context, broker, request)


def _leaders_moved(context: DecisionContext, broker: BrokerImage) -> list[Message]:
    """Move leaders away from the broker, which may stop only when all active brokers know the last of them."""
    records = begin_shutdown(context, broker).records
    if records:
        context.sessions.shut_down_at(broker, context.next_offset + len(records) - 1)
    return records


def _fenced(context: DecisionContext, broker: BrokerImage, request: BrokerHeartbeatRequest) -> Decision:
    change = fence(context, broker)
    if not change.complete:
        context.sessions.leave(broker)
        return change.records, _answer(broker, request, fenced=False)
    context.sessions.forget(broker.id)
    stops = request.want_shut_down or broker.in_controlled_shutdown
    return change.records, _answer(broker, request, should_shut_down=stops)


def _is_caught_up(broker: BrokerImage, request: BrokerHeartbeatRequest) -> bool:
    """True if the broker has the metadata up to its own registration."""
    return request.current_metadata_offset >= broker.epoch


def _answer(
    broker: BrokerImage, request: BrokerHeartbeatRequest, *, fenced: bool = True, should_shut_down: bool = False
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        is_caught_up=_is_caught_up(broker, request), is_fenced=fenced, should_shut_down=should_shut_down
    )
