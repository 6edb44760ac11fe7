"""The `range` assignor: each subscriber of a topic gets a range of consecutive partitions, in the order of the members.

Topics with the same subscribers and the same number of partitions are split equally, as joins of topics require. Static
members come first, by instance id, so that they keep their ranges when their member ids change.
"""

from uuid import UUID

from odradek.coordinator.groups.consumer.assignors.problem import MemberSubscription, Problem, Solution


def assign_ranges(problem: Problem) -> Solution:
    """Split every topic among its subscribers; if it does not divide evenly, the first ones get one more."""
    members = sorted(problem.members, key=_order)
    given: dict[str, dict[UUID, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, count in problem.partition_counts.items():
        subscribers = [member.member_id for member in members if topic_id in member.topic_ids]
        share, extra = divmod(count, len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + share + (position < extra)
            if end > start:
                given[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return given


def _order(member: MemberSubscription) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member.member_id)
