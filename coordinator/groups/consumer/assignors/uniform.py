"""The `uniform` assignor: members' numbers of partitions differ by one at most, and members keep what they can.

If members subscribe to different topics that may be impossible. Then no partition is assigned to a member that has at
least two partitions more than another subscriber of the topic.
"""

from collections.abc import Iterable
from uuid import UUID

from odradek.coordinator.groups.consumer.assignors.problem import MemberSubscription, Problem, Solution

TopicIdPartition = tuple[UUID, int]
"""A topic's id and a partition's index."""


def assign_uniformly(problem: Problem) -> Solution:
    """Keep the partitions of topics still subscribed to, assign the rest to members with few, then balance."""
    members = problem.members
    held = {member.member_id: _kept(problem, member) for member in members}
    alike = len({member.topic_ids for member in members}) == 1
    if alike:
        _fill_alike(problem, held)
    else:
        _fill(problem, held)
        _balance(problem, held)
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _kept(problem: Problem, member: MemberSubscription) -> list[TopicIdPartition]:
    return sorted(
        (topic_id, partition)
        for topic_id, partitions in member.current.items()
        if topic_id in member.topic_ids
        for partition in partitions
        if partition < problem.partition_counts.get(topic_id, 0)
    )


def _free(problem: Problem, held: dict[str, list[TopicIdPartition]]) -> list[TopicIdPartition]:
    taken = {partition for partitions in held.values() for partition in partitions}
    every = ((topic_id, index) for topic_id, count in problem.partition_counts.items() for index in range(count))
    return [partition for partition in every if partition not in taken]


def _fill_alike(problem: Problem, held: dict[str, list[TopicIdPartition]]) -> None:
    """With equal subscriptions: if the partitions do not divide evenly, members with the most get the extra ones."""
    share, extra = divmod(sum(problem.partition_counts.values()), len(held))
    by_size = sorted(held, key=lambda member_id: -len(held[member_id]))
    quotas = {member_id: share + (position < extra) for position, member_id in enumerate(by_size)}
    for member_id, partitions in held.items():
        del partitions[quotas[member_id] :]
    free = iter(_free(problem, held))
    for member_id, partitions in held.items():
        missing = quotas[member_id] - len(partitions)
        partitions += [partition for _, partition in zip(range(missing), free, strict=False)]


def _fill(problem: Problem, held: dict[str, list[TopicIdPartition]]) -> None:
    """Assign topics with few subscribers first; those with many can still balance the numbers afterwards."""
    subscribers = _subscribers(problem)
    for partition in sorted(_free(problem, held), key=lambda partition: (len(subscribers[partition[0]]), partition)):
        least = min(subscribers[partition[0]], key=lambda member_id: len(held[member_id]))
        held[least].append(partition)


def _balance(problem: Problem, held: dict[str, list[TopicIdPartition]]) -> None:
    """Move partitions from a member to a subscriber that has at least two fewer, until there is none.

    Each move reduces the sum of the squares of the members' numbers, so the loop terminates.
    """
    subscribers = _subscribers(problem)
    moved = True
    while moved:
        moved = False
        for member_id in sorted(held, key=lambda member_id: -len(held[member_id])):
            moved |= _move_from(member_id, held, subscribers)


def _move_from(member_id: str, held: dict[str, list[TopicIdPartition]], subscribers: dict[UUID, list[str]]) -> bool:
    moved = False
    for partition in list(held[member_id]):
        least = min(subscribers[partition[0]], key=lambda each: len(held[each]))
        if len(held[least]) + 1 < len(held[member_id]):
            held[member_id].remove(partition)
            held[least].append(partition)
            moved = True
    return moved


def _subscribers(problem: Problem) -> dict[UUID, list[str]]:
    return {
        topic_id: [member.member_id for member in problem.members if topic_id in member.topic_ids]
        for topic_id in problem.partition_counts
    }


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, frozenset[int]]:
    found: dict[UUID, set[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
