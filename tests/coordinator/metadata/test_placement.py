"""Placement of replicas."""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.placement import place_replicas
from odradek.coordinator.metadata.image.image import BrokerImage
from odradek.wire.errors import ErrorCode


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[BrokerImage]:
    return [
        BrokerImage(number, 0, UUID(int=number), {}, rack=rack, fenced=number in fenced)
        for number, rack in enumerate(racks)
    ]


def test_three_brokers_two_partitions_have_leaders_on_two():
    placed = place_replicas(brokers(None, None, None), 2, 3)
    assert len({replicas[0] for replicas in placed}) == 2


def test_three_brokers_three_partitions_have_one_leader_each():
    placed = place_replicas(brokers(None, None, None), 3, 3)
    assert sorted(replicas[0] for replicas in placed) == [0, 1, 2]


def test_many_small_topics_spread_too():
    leaders = [place_replicas(brokers(None, None, None), 1, 1, start=start)[0][0] for start in range(6)]
    assert Counter(leaders) == {0: 2, 1: 2, 2: 2}


def test_followers_of_one_leader_vary():
    placed = place_replicas(brokers(None, None, None, None), 12, 2)
    assert {replicas[1] for replicas in placed if replicas[0] == 0} == {1, 2, 3}


def test_every_rack_has_a_replica_before_one_has_two():
    placed = place_replicas(brokers("a", "a", "b", "b", "c", "c"), 30, 3)
    racks = dict(enumerate("aabbcc"))
    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in placed)


def test_a_fenced_broker_leads_nothing():
    placed = place_replicas(brokers(None, None, None, fenced=(1,)), 6, 3)
    assert {replicas[0] for replicas in placed} == {0, 2}
    assert all(1 in replicas for replicas in placed)


@pytest.mark.parametrize("those", [[], brokers(None, fenced=(0,)), brokers(None)])
def test_too_few_brokers_are_refused(those: list[BrokerImage]):
    with pytest.raises(RefusedError) as refused:
        place_replicas(those, 1, 2)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=8),
    st.integers(1, 30),
    st.integers(1, 8),
    st.integers(0, 100),
)
def test_replicas_are_distinct_and_leaders_even(racks: list[str | None], count: int, factor: int, start: int):
    factor = min(factor, len(racks))
    placed = place_replicas(brokers(*racks), count, factor, start=start)
    assert all(len(replicas) == len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(dict.fromkeys(range(len(racks)), 0))
    leaders.update(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1


@pytest.mark.parametrize(("count", "leaders"), [(2, [1, 1]), (3, [1, 1, 1])])
def test_the_two_cases_of_a_small_cluster_at_any_start(count: int, leaders: list[int]):
    for start in range(9):
        placed = place_replicas(brokers(None, None, None), count, 3, start=start)
        assert sorted(Counter(replicas[0] for replicas in placed).values()) == leaders
        assert all(sorted(replicas) == [0, 1, 2] for replicas in placed)


def test_a_fenced_broker_is_used_only_where_none_else_is_left():
    placed = place_replicas(brokers(None, None, None, None, fenced=(1,)), 24, 3)
    assert all(1 not in replicas for replicas in placed)
    racked = place_replicas(brokers("a", "a", "b", "b", fenced=(2, 3)), 24, 2)
    assert all(len({*replicas} & {2, 3}) == 1 for replicas in racked), "a rack comes before a state"


def test_a_broker_that_shuts_down_is_given_nothing():
    those = brokers(None, None, None)
    those[1] = BrokerImage(1, 0, UUID(int=1), {}, in_controlled_shutdown=True)
    assert all(1 not in replicas for replicas in place_replicas(those, 6, 2))
    with pytest.raises(RefusedError):
        place_replicas(those, 1, 3)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 50))
def test_of_equal_racks_all_brokers_have_as_many_replicas(racks: int, each: int, factor: int, start: int):
    names = [name for name in "abcd"[:racks] for _ in range(each)]
    factor = min(factor, len(names))
    ring = len(names)
    placed = place_replicas(brokers(*names), ring * max(ring - 1, 1), factor, start=start)
    counts = Counter(broker for replicas in placed for broker in replicas)
    assert len(set(counts.values())) == 1, counts
    racks_of = dict(enumerate(names))
    for replicas in placed:
        used = Counter(racks_of[broker] for broker in replicas)
        assert max(used.values()) - min([used[name] for name in set(names)]) <= 1
