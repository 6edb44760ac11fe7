"""Placement of the replicas of new partitions: leaders spread evenly, and replicas over racks before over brokers.

Brokers form a ring in which racks alternate. From partition to partition, the leader moves one broker on. Followers are
after it in the ring, at a distance that grows with each round of the leaders, so that one broker's leaders do not all
have the same followers. Deterministic: the same cluster and request give the same placement.

The guarantees of Kafka's StripedReplicaPlacer hold here, too: no broker twice, leaders only on active brokers, each
rack used before one is used twice, fenced brokers only if a rack has no active one left, and none that is shutting
down. Kafka begins at a random broker, this function at one given by the caller.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import BrokerImage
from odradek.wire.errors import ErrorCode


def place_replicas(
    brokers: Iterable[BrokerImage], count: int, replication_factor: int, *, start: int = 0
) -> list[tuple[int, ...]]:
    """Returns the replicas of `count` partitions, preferred leader first.

    `start` is the position of the first leader in the ring of brokers.

    A fenced broker may be a follower but not a leader. Raises RefusedError (INVALID_REPLICATION_FACTOR) when there are
    not enough brokers.
    """
    ring = _ring([broker for broker in brokers if broker.fenced or broker.is_active])
    active = [broker for broker in ring if broker.is_active]
    _check(replication_factor, ring, active)
    period = len(active) * max(len(ring) - 1, 1)  # after this many partitions the list of replica assignments repeats
    turns = [_replicas(ring, active, start + index, replication_factor) for index in range(min(count, period))]
    return [turns[index % period] for index in range(count)]


def _check(replication_factor: int, ring: Sequence[BrokerImage], active: Sequence[BrokerImage]) -> None:
    if not active:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
    if replication_factor > len(ring):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(ring)} "
            "broker(s) are registered or some brokers have all their log directories cordoned.",
        )


def _ring(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack, []).append(broker)
    columns = zip_longest(*(racks[rack] for rack in sorted(racks, key=lambda rack: rack or "")))
    return [broker for broker in chain.from_iterable(columns) if broker is not None]


def _replicas(
    ring: Sequence[BrokerImage], active: Sequence[BrokerImage], number: int, replication_factor: int
) -> tuple[int, ...]:
    leader = active[number % len(active)]
    at = ring.index(leader)
    others = [ring[(at + step) % len(ring)] for step in range(1, len(ring))]
    shift = number // len(active) % len(others) if others else 0
    candidates = others[shift:] + others[:shift]
    return tuple(broker.id for broker in _spread(leader, candidates, replication_factor))


def _spread(leader: BrokerImage, candidates: Sequence[BrokerImage], count: int) -> list[BrokerImage]:
    """Returns the leader and `count - 1` candidates in order, from unused racks as long as there are any.

    Within a rack, and without racks, active brokers come before fenced ones.
    """
    chosen, left = [leader], list(candidates)
    by_turn = {broker.id: turn for turn, broker in enumerate(candidates)}
    used = {leader.rack}
    while len(chosen) < count:
        fresh = [broker for broker in left if broker.rack not in used]
        if not fresh:
            used = set[str | None]()  # each rack has a replica: use all racks again
            fresh = left
        pick = _next_of(fresh, by_turn)
        used.add(pick.rack)
        left.remove(pick)
        chosen.append(pick)
    return chosen


def _next_of(brokers: Sequence[BrokerImage], by_turn: dict[int, int]) -> BrokerImage:
    """Returns the first active broker of the rack that comes first, or its first broker if none is active."""
    rack = min(brokers, key=lambda broker: by_turn[broker.id]).rack
    return min(brokers, key=lambda broker: (broker.rack != rack, broker.fenced, by_turn[broker.id]))
