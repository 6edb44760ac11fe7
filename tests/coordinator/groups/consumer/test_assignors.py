"""The assignors: every partition is assigned to exactly one of its subscribers, fairly, and moves only if it must."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.groups.consumer.assignor_names import ASSIGNOR_NAMES
from odradek.coordinator.groups.consumer.assignors import ASSIGNORS
from odradek.coordinator.groups.consumer.assignors.problem import MemberSubscription, Problem
from odradek.coordinator.groups.consumer.assignors.range import assign_ranges
from odradek.coordinator.groups.consumer.assignors.uniform import assign_uniformly

TOPICS = tuple(UUID(int=n) for n in range(1, 5))
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)


@st.composite
def problems(draw, *, alike=False):
    """Members with subscriptions and previous assignments: none, or ones that were fair for another set of members."""
    sizes = draw(counts)
    everything = frozenset(sizes)
    wanted = st.just(everything) if alike else st.frozensets(st.sampled_from(sorted(sizes)), max_size=4)
    wishes = draw(st.lists(wanted, min_size=1, max_size=6))
    statics = draw(st.lists(st.booleans(), min_size=6, max_size=6))
    members = [
        MemberSubscription(f"m{n}", f"i{n}" if static else None, ids, {})
        for n, (ids, static) in enumerate(zip(wishes, statics, strict=False))
    ]
    if draw(st.booleans()):
        earlier = tuple(members[: draw(st.integers(1, len(members)))])
        before = assign_uniformly(Problem(earlier, _of(earlier, sizes)))
        members = [
            MemberSubscription(m.member_id, m.instance_id, m.topic_ids, before.get(m.member_id, {})) for m in members
        ]
    return Problem(tuple(members), _of(members, sizes))


def _of(members, sizes):
    read = frozenset().union(*(member.topic_ids for member in members))
    return {topic_id: count for topic_id, count in sizes.items() if topic_id in read}


def partitions(given_to):
    return {(topic_id, index) for topic_id, indexes in given_to.items() for index in indexes}


def readable(problem):
    """The partitions to which at least one of the given members subscribes."""
    return {
        (topic_id, index)
        for topic_id, count in problem.partition_counts.items()
        if any(topic_id in member.topic_ids for member in problem.members)
        for index in range(count)
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(problem=problems())
def test_every_partition_goes_to_one_subscriber(name, problem):
    solution = ASSIGNORS[name](problem)
    everything = [partition for member in problem.members for partition in partitions(solution[member.member_id])]
    assert len(everything) == len(set(everything))
    assert set(everything) == readable(problem)
    for member in problem.members:
        assert set(solution[member.member_id]) <= member.topic_ids


@given(problem=problems(alike=True))
def test_uniform_gives_as_many_to_each_and_moves_no_more_than_it_must(problem):
    solution = assign_uniformly(problem)
    sizes = [len(partitions(solution[member.member_id])) for member in problem.members]
    assert max(sizes) - min(sizes) <= 1
    kept = sum(len(partitions(solution[m.member_id]) & partitions(m.current)) for m in problem.members)
    share, extra = divmod(sum(problem.partition_counts.values()), len(problem.members))
    had = sorted((len(partitions(m.current)) for m in problem.members), reverse=True)
    assert kept == sum(min(count, share + (n < extra)) for n, count in enumerate(had))


@given(problem=problems())
def test_uniform_leaves_nobody_with_two_more_than_one_who_could_take_one(problem):
    solution = assign_uniformly(problem)
    sizes = {member.member_id: len(partitions(solution[member.member_id])) for member in problem.members}
    for member in problem.members:
        for other in problem.members:
            if set(solution[member.member_id]) & other.topic_ids:
                assert sizes[member.member_id] - sizes[other.member_id] <= 1


@given(problem=problems())
def test_uniform_is_settled(problem):
    solution = assign_uniformly(problem)
    again = tuple(
        MemberSubscription(m.member_id, m.instance_id, m.topic_ids, solution[m.member_id]) for m in problem.members
    )
    assert assign_uniformly(Problem(again, problem.partition_counts)) == solution


@given(problem=problems())
def test_range_gives_runs_in_the_order_of_the_members(problem):
    solution = assign_ranges(problem)
    ordered = sorted(problem.members, key=lambda m: (m.instance_id is None, m.instance_id or m.member_id))
    for topic_id, count in problem.partition_counts.items():
        runs = [sorted(solution[m.member_id].get(topic_id, ())) for m in ordered if topic_id in m.topic_ids]
        assert [index for run in runs for index in run] == (list(range(count)) if runs else [])
        assert max(map(len, runs), default=0) - min(map(len, runs), default=0) <= 1
        assert [len(run) for run in runs] == sorted((len(run) for run in runs), reverse=True)


def test_range_splits_topics_of_the_same_size_alike():
    members = tuple(MemberSubscription(name, None, frozenset(TOPICS[:2]), {}) for name in "abc")
    solution = assign_ranges(Problem(members, {TOPICS[0]: 7, TOPICS[1]: 7}))
    for member in members:
        assert solution[member.member_id][TOPICS[0]] == solution[member.member_id][TOPICS[1]]


def test_every_name_that_settings_may_have_is_an_assignors():
    assert tuple(ASSIGNORS) == ASSIGNOR_NAMES
