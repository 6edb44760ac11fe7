"""The cluster as a client sees it through its listener: the reachable brokers, and the partitions' leaders."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from odradek.coordinator.metadata.image.image import (
    NO_LEADER,
    BrokerImage,
    ListenerImage,
    MetadataImage,
    PartitionImage,
)
from odradek.wire.errors import ErrorCode


class Reached(NamedTuple):
    """A broker, and its address for clients of the listener."""

    broker: BrokerImage
    endpoint: ListenerImage


Reachable = Mapping[int, Reached]


def reachable(image: MetadataImage, listener: str, *, fenced: bool = False) -> Reachable:
    """The brokers that have the listener, in the order of their ids, as in Kafka.

    Fenced brokers, which serve no clients, are included only if `fenced` is True.
    """
    found = ((image.brokers[each], image.brokers[each].listeners.get(listener)) for each in sorted(image.brokers))
    return {broker.id: Reached(broker, at) for broker, at in found if at is not None and (fenced or not broker.fenced)}


def some_broker(brokers: Reachable, choose: Callable[[Sequence[int]], int]) -> int:
    """The controller id in a broker's responses; -1 if no broker is available.

    As in Kafka it is any available broker, since each forwards requests to the active controller (KIP-590).
    """
    if len(brokers) > 1:
        return choose(list(brokers))
    return next(iter(brokers), NO_LEADER)


class LeaderView(NamedTuple):
    """A partition's leader as one client sees it; with an error there is no leader that the client can use."""

    error: ErrorCode
    leader_id: int
    offline: tuple[int, ...]


def leader_of(
    image: MetadataImage, part: PartitionImage, brokers: Reachable, *, has_listener_error: bool
) -> LeaderView:
    """The leader, and the replicas that clients cannot reach.

    `has_listener_error`: the client's version has LISTENER_NOT_FOUND, the error for a leader without its listener.
    """
    offline = tuple([each for each in part.replicas if each not in brokers])
    if part.leader in brokers:
        return LeaderView(ErrorCode.NONE, part.leader, offline)
    broker = image.brokers.get(part.leader)
    lacks_listener = broker is not None and not broker.fenced and has_listener_error
    error = ErrorCode.LISTENER_NOT_FOUND if lacks_listener else ErrorCode.LEADER_NOT_AVAILABLE
    return LeaderView(error, NO_LEADER, offline)
