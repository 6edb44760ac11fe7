"""The segments that retention deletes, by Kafka's rules."""

import pytest

from odradek.partitions.config import CleanupPolicy, LogConfig
from odradek.partitions.model import SegmentInfo
from odradek.partitions.retention import retention_start

NOW_MS = 1_000_000


def log_of(*segments, end=None):
    """A log of segments, each given as (base, bytes, newest timestamp); the last is active and ends at `end`."""
    ends = [*(base for base, _, _ in segments[1:]), segments[-1][0] + 10 if end is None else end]
    last = len(segments) - 1
    return [
        SegmentInfo(base, stop, size, newest, sealed=index != last)
        for index, ((base, size, newest), stop) in enumerate(zip(segments, ends, strict=True))
    ]


def start_of(segments, *, high_watermark=10**9, **config):
    settings = LogConfig(**{"retention_ms": -1, "retention_bytes": -1, **config})
    return retention_start(segments, high_watermark=high_watermark, config=settings, now_ms=NOW_MS)


FOUR = log_of((0, 100, 100), (10, 100, 200), (20, 100, 300), (30, 50, 400))


@pytest.mark.parametrize(
    ("retention_bytes", "expected"),
    [(-1, None), (350, None), (251, None), (250, 10), (249, 10), (151, 10), (150, 20), (50, 30), (49, 30), (0, 40)],
)
def test_by_size_as_many_as_leave_at_least_that_much(retention_bytes, expected):
    assert start_of(FOUR, retention_bytes=retention_bytes) == expected


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [(NOW_MS - 100, None), (NOW_MS - 101, 10), (NOW_MS - 200, 10), (NOW_MS - 301, 30), (NOW_MS - 401, 40)],
)
def test_by_time_what_is_older_than_that(age_ms, expected):
    assert start_of(FOUR, retention_ms=age_ms) == expected


def test_the_first_that_must_stay_ends_it():
    segments = log_of((0, 100, 100), (10, 100, NOW_MS), (20, 100, 300), (30, 50, 400))
    assert start_of(segments, retention_ms=1000) == 10


def test_time_judges_what_size_has_left():
    segments = log_of((0, 100, NOW_MS), (10, 100, 200), (20, 100, NOW_MS), (30, 50, 400))
    assert start_of(segments, retention_ms=1000) is None
    assert start_of(segments, retention_ms=1000, retention_bytes=250) == 20


def test_nothing_at_or_above_the_high_watermark():
    assert start_of(FOUR, retention_ms=0, high_watermark=29) == 20
    assert start_of(FOUR, retention_ms=0, high_watermark=39) == 30
    assert start_of(FOUR, retention_ms=0, high_watermark=40) == 40


def test_an_empty_active_segment_stays():
    assert start_of(log_of((0, 0, -1), end=0), retention_ms=0, retention_bytes=0) is None
    assert start_of(log_of((0, 100, 5), (10, 0, -1), end=10), retention_ms=0) == 10


def test_what_has_no_timestamps_never_grows_old_but_counts():
    segments = log_of((0, 100, -1), (10, 100, 5), (20, 100, 6))
    assert start_of(segments, retention_ms=0) is None
    assert start_of(segments, retention_bytes=200) == 10


def test_segments_emptied_by_compaction_do_not_block_retention():
    segments = log_of((0, 0, -1), (10, 100, 5), (20, 100, NOW_MS))
    assert start_of(segments, retention_ms=1000) == 20


def test_only_where_the_policy_says_delete():
    only, both = frozenset({CleanupPolicy.COMPACT}), frozenset(CleanupPolicy)
    assert start_of(FOUR, retention_ms=0, cleanup_policy=only) is None
    assert start_of(FOUR, retention_ms=0, cleanup_policy=both) == 40
