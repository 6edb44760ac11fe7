"""Replication throttles: which replicas they count, and that the rate holds over time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.partitions.fetching.throttle import UNLIMITED, ReplicationQuota, is_throttled


@pytest.mark.parametrize(
    ("replicas", "index", "broker", "expected"),
    [
        ((), 0, 1, False),
        (("*",), 5, 9, True),
        (("0:1", "0:2"), 0, 2, True),
        (("0:1", "0:2"), 0, 3, False),
        (("0:1", "1:2"), 1, 1, False),
    ],
)
def test_a_topic_names_the_replicas(replicas, index, broker, expected) -> None:
    assert is_throttled(frozenset(replicas), index, broker) is expected


def test_the_rate_is_over_the_windows_that_there_are_and_one_at_least() -> None:
    quota = ReplicationQuota(windows=3, window_ms=1000)
    assert quota.rate(0) == 0
    quota.record(500, 0)
    assert quota.rate(0) == quota.rate(1000) == 500
    quota.record(500, 1000)
    assert quota.rate(2000) == 500
    assert quota.rate(2999) == pytest.approx(1000 * 1000 / 2999)
    assert quota.rate(3000) == 500 / 2, "the first window is over"
    assert quota.rate(4000) == 0


def test_without_a_bound_nothing_is_exceeded_and_with_one_only_above_it() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 40, 0)
    assert not quota.is_exceeded(0)
    quota.bound = 1 << 40
    assert not quota.is_exceeded(0)
    quota.bound -= 1
    assert quota.is_exceeded(0)
    quota.bound = UNLIMITED
    assert not quota.is_exceeded(0)


@given(bound=st.integers(1, 1000), size=st.integers(1, 5000), every_ms=st.integers(1, 700), windows=st.integers(2, 15))
def test_who_waits_while_it_is_exceeded_keeps_the_rate_but_for_one_fetch_a_span(bound, size, every_ms, windows) -> None:
    quota = ReplicationQuota(windows, window_ms=1000)
    quota.bound = bound
    taken = now_ms = 0
    until_ms = 60_000
    while now_ms < until_ms:
        if not quota.is_exceeded(now_ms):
            quota.record(size, now_ms)
            taken += size
        now_ms += every_ms
    spans = until_ms / (windows * 1000) + 1
    assert taken <= bound * (until_ms / 1000 + windows) + size * (spans + 1)
    assert taken >= size
