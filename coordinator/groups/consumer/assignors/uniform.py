"""The `uniform` assignor: every member has as many partitions as any other, within one, and keeps what it can.

Where members subscribe to different topics that may be impossible; then nobody has two more than somebody who could
take one of them.
"""

from collections.abc import Iterable
from uuid import UUID

from odradek.coordinator.groups.consumer.assignors.problem import MemberWish, Problem, Solution

Place = tuple[UUID, int]
"""A partition."""


def assign_uniformly(problem: Problem) -> Solution:
    """Keep what members have, as far as they still may; give the rest to whoever has least; then even out."""
    members = problem.members
    held = {member.member_id: _kept(problem, member) for member in members}
    alike = len({member.topic_ids for member in members}) == 1
    if alike:
        _fill_alike(problem, held)
    else:
        _fill(problem, held)
        _even_out(problem, held)
    return {member_id: _by_topic(places) for member_id, places in held.items()}


def _kept(problem: Problem, member: MemberWish) -> list[Place]:
    return sorted(
        (topic_id, partition)
        for topic_id, partitions in member.current.items()
        if topic_id in member.topic_ids
        for partition in partitions
        if partition < problem.partition_counts.get(topic_id, 0)
    )


def _free(problem: Problem, held: dict[str, list[Place]]) -> list[Place]:
    taken = {place for places in held.values() for place in places}
    every = ((topic_id, index) for topic_id, count in problem.partition_counts.items() for index in range(count))
    return [place for place in every if place not in taken]


def _fill_alike(problem: Problem, held: dict[str, list[Place]]) -> None:
    """All subscribe to the same: whoever has most already is granted the partition more that some must have."""
    share, extra = divmod(sum(problem.partition_counts.values()), len(held))
    by_size = sorted(held, key=lambda member_id: -len(held[member_id]))
    quotas = {member_id: share + (position < extra) for position, member_id in enumerate(by_size)}
    for member_id, places in held.items():
        del places[quotas[member_id] :]
    free = iter(_free(problem, held))
    for member_id, places in held.items():
        missing = quotas[member_id] - len(places)
        places += [place for _, place in zip(range(missing), free, strict=False)]


def _fill(problem: Problem, held: dict[str, list[Place]]) -> None:
    """Topics with few subscribers first, for the others can still make good for it."""
    subscribers = _subscribers(problem)
    for place in sorted(_free(problem, held), key=lambda place: (len(subscribers[place[0]]), place)):
        least = min(subscribers[place[0]], key=lambda member_id: len(held[member_id]))
        held[least].append(place)


def _even_out(problem: Problem, held: dict[str, list[Place]]) -> None:
    """Move partitions from who has more to a subscriber who has at least two less, until there is none.

    Each move makes the sum of the squares of the members' numbers smaller, so it ends.
    """
    subscribers = _subscribers(problem)
    moved = True
    while moved:
        moved = False
        for member_id in sorted(held, key=lambda member_id: -len(held[member_id])):
            moved |= _give_away(member_id, held, subscribers)


def _give_away(member_id: str, held: dict[str, list[Place]], subscribers: dict[UUID, list[str]]) -> bool:
    moved = False
    for place in list(held[member_id]):
        least = min(subscribers[place[0]], key=lambda each: len(held[each]))
        if len(held[least]) + 1 < len(held[member_id]):
            held[member_id].remove(place)
            held[least].append(place)
            moved = True
    return moved


def _subscribers(problem: Problem) -> dict[UUID, list[str]]:
    return {
        topic_id: [member.member_id for member in problem.members if topic_id in member.topic_ids]
        for topic_id in problem.partition_counts
    }


def _by_topic(places: Iterable[Place]) -> dict[UUID, frozenset[int]]:
    found: dict[UUID, set[int]] = {}
    for topic_id, partition in sorted(places):
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
