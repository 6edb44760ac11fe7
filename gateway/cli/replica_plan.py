"""Plans of `odradek cluster add`, `drain` and `reassign`: the new replicas of partitions. Pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

Partition = tuple[str, int]
"""Topic and index."""
Replicas = Mapping[Partition, Sequence[int]]
"""The brokers that hold each partition, the preferred leader first."""


class TooFewBrokersError(Exception):
    """A partition has more replicas than there are brokers to hold them."""

    def __init__(self, place: Partition, wanted: int, brokers: int) -> None:
        super().__init__(f"{place[0]}-{place[1]} has {wanted} replicas, and {brokers} brokers are left to hold them")


def without(held: Replicas, leaving: Iterable[int], brokers: Mapping[int, str | None]) -> dict[Partition, list[int]]:
    """The new replicas of all partitions with one in `leaving`; `brokers` are those that are not fenced, with racks.

    A replica moves to the broker with the fewest replicas among those that do not have the partition yet, preferably to
    one in a rack without a replica of it. The other replicas and the order do not change, so that preferred leaders
    stay the same. Raises TooFewBrokersError.
    """
    gone = set(leaving)
    staying = {broker: rack for broker, rack in brokers.items() if broker not in gone}
    load = Counter(chain.from_iterable(held.values()))
    plan: dict[Partition, list[int]] = {}
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


def _taker(place: Partition, held: Sequence[int], staying: Mapping[int, str | None], load: Mapping[int, int]) -> int:
    free = [broker for broker in sorted(staying) if broker not in held]
    if not free:
        raise TooFewBrokersError(place, len(held), len(staying))
    racks = {staying[broker] for broker in held if broker in staying}
    return min(free, key=lambda broker: (staying[broker] is not None and staying[broker] in racks, load[broker]))


def over(held: Replicas, brokers: Sequence[int], racks: Mapping[int, str | None]) -> dict[Partition, list[int]]:
    """The partitions spread evenly over `brokers`, which become preferred leaders in turn, alternately by rack.

    The replicas of a partition are in as many racks as possible. Contains only partitions whose replicas change; the
    number of replicas stays. Raises TooFewBrokersError.
    """
    leaders = _alternating(brokers, racks)
    load: Counter[int] = Counter()
    plan: dict[Partition, list[int]] = {}
    for turn, place in enumerate(sorted(held)):
        count = len(held[place])
        if count > len(leaders):
            raise TooFewBrokersError(place, count, len(leaders))
        start = turn % len(leaders)
        after = _spread([*leaders[start:], *leaders[:start]], count, racks, load)
        load.update(after)
        if after != list(held[place]):
            plan[place] = after
    return plan


def _alternating(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """The brokers in their order, but one of each rack in turn; one without a rack counts as a rack of its own."""
    in_rack: Counter[str | None] = Counter()
    turns: dict[int, int] = {}
    for broker in brokers:
        rack = racks.get(broker)
        turns[broker] = 0 if rack is None else in_rack[rack]
        in_rack[rack] += 1
    return sorted(brokers, key=turns.__getitem__)


def _spread(brokers: Sequence[int], count: int, racks: Mapping[int, str | None], load: Mapping[int, int]) -> list[int]:
    """The first of `brokers` and, as long as there are any, brokers of other racks; of these those with least load."""
    chosen = [brokers[0]][:count]
    while len(chosen) < count:
        free = [broker for broker in brokers if broker not in chosen]
        taken = {racks.get(broker) for broker in chosen} - {None}
        fitting = [broker for broker in free if racks.get(broker) not in taken]
        chosen.append(min(fitting or free, key=lambda broker: load[broker]))
    return chosen


def onto(held: Replicas, joining: Iterable[int], brokers: Mapping[int, str | None]) -> dict[Partition, list[int]]:
    """The new replicas of partitions that move to `joining`; `brokers` are those that are not fenced, with racks.

    Each joining broker gets an even share of the replicas, and of the preferred leaders, from brokers with more than
    their share. It gets no replica of a partition that has another one in its rack. No other replica moves.
    """
    load = Counter(chain.from_iterable(held.values()))
    leads = Counter(replicas[0] for replicas in held.values() if replicas)
    share, leading_share = sum(load.values()) // len(brokers), len(held) // len(brokers)
    plan: dict[Partition, list[int]] = {}
    for newcomer in joining:
        for place in sorted(held, key=lambda each: (each[1], each[0])):  # by index first: few partitions of each topic
            if load[newcomer] >= share:
                break
            after = list(plan.get(place, held[place]))
            position = _given_up(after, newcomer, brokers, load, share, leads, leading_share)
            if position is None:
                continue
            load[after[position]] -= 1
            if position == 0:
                leads[after[0]] -= 1
                leads[newcomer] += 1
            after[position] = newcomer
            load[newcomer] += 1
            plan[place] = after
    return plan


def _given_up(
    held: Sequence[int],
    newcomer: int,
    brokers: Mapping[int, str | None],
    load: Mapping[int, int],
    share: int,
    leads: Mapping[int, int],
    leading_share: int,
) -> int | None:
    """The position in `held` that the newcomer takes over; None if it takes none."""
    if newcomer in held:
        return None
    rack = brokers.get(newcomer)
    fitting = [
        position
        for position, broker in enumerate(held)
        if load[broker] > share
        and (position > 0 or (leads[newcomer] < leading_share < leads[broker]))
        and (rack is None or rack not in {brokers.get(other) for other in held if other != broker})
    ]
    # Preferably the position of the preferred leader; else that of the broker with the most replicas.
    return min(fitting, key=lambda position: (position > 0, -load[held[position]]), default=None)
