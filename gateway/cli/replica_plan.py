"""Which brokers shall hold which partitions: plans for `odradek cluster drain` and `reassign`, as pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

Place = tuple[str, int]
"""Topic and partition."""
Replicas = Mapping[Place, Sequence[int]]
"""The brokers that hold each partition, the preferred leader first."""


class TooFewBrokersError(Exception):
    """A partition has more replicas than there are brokers to hold them."""

    def __init__(self, place: Place, wanted: int, brokers: int) -> None:
        super().__init__(f"{place[0]}-{place[1]} has {wanted} replicas, and {brokers} brokers are left to hold them")


def without(held: Replicas, leaving: Iterable[int], brokers: Mapping[int, str | None]) -> dict[Place, list[int]]:
    """The new replicas of every partition that a broker in `leaving` holds; `brokers` are all that serve, with racks.

    A replica moves to the broker with the fewest of those that do not hold the partition yet, if there is one in a rack
    of its own to that. The others keep their place, and the order stays, so that leaders stay preferred where they are.
    Raises TooFewBrokersError.
    """
    gone = set(leaving)
    staying = {broker: rack for broker, rack in brokers.items() if broker not in gone}
    load = Counter(chain.from_iterable(held.values()))
    plan: dict[Place, list[int]] = {}
    for place in sorted(held):
        before = held[place]
        if not gone.intersection(before):
            continue
        after = list(before)
        for position, broker in enumerate(before):
            if broker in gone:
                after[position] = _taker(place, after, staying, load)
                load[after[position]] += 1
        plan[place] = after
    return plan


def _taker(place: Place, held: Sequence[int], staying: Mapping[int, str | None], load: Mapping[int, int]) -> int:
    free = [broker for broker in sorted(staying) if broker not in held]
    if not free:
        raise TooFewBrokersError(place, len(held), len(staying))
    racks = {staying[broker] for broker in held if broker in staying}
    return min(free, key=lambda broker: (staying[broker] is not None and staying[broker] in racks, load[broker]))


def over(held: Replicas, brokers: Sequence[int]) -> dict[Place, list[int]]:
    """The replicas of every partition spread evenly over `brokers`, as many of each as now; leaders take turns.

    Only partitions whose replicas change are named. Raises TooFewBrokersError.
    """
    plan: dict[Place, list[int]] = {}
    for turn, place in enumerate(sorted(held)):
        count = len(held[place])
        if count > len(brokers):
            raise TooFewBrokersError(place, count, len(brokers))
        after = [brokers[(turn + step) % len(brokers)] for step in range(count)]
        if after != list(held[place]):
            plan[place] = after
    return plan
