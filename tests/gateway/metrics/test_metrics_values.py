"""Values of the metrics: quantiles of the last minute, and counts of partitions."""

import math
import random
from uuid import UUID

import pytest

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from odradek.gateway.env.durations import UPPER_US, Durations, RecentTimes, quantile
from odradek.gateway.metrics.endpoint import Health
from odradek.gateway.metrics.partitions import counts
from odradek.gateway.metrics.windows import Windows


@pytest.mark.parametrize("fraction", [0.5, 0.75, 0.95, 0.99])
def test_a_quantile_lies_in_the_range_of_the_true_one(fraction: float):
    chance = random.Random(1)
    took = sorted(round(chance.lognormvariate(7, 1.5)) for _ in range(10_000))
    durations = Durations()
    for each in took:
        durations.add(each)
    true = took[int(fraction * len(took))]
    below = max((end for end in UPPER_US if end < true), default=0)
    above = min(end for end in UPPER_US if end >= true)
    assert below <= quantile(durations.counts, fraction) <= above
    assert durations.total_us == sum(took)


def test_quantiles_of_nothing_and_of_the_longest():
    durations = Durations()
    assert quantile(durations.counts, 0.99) == 0
    durations.add(UPPER_US[-1] * 5)
    assert quantile(durations.counts, 0.99) == UPPER_US[-1]


def test_fetches_that_found_nothing_have_the_quantiles_of_their_wait():
    durations = Durations()
    for _ in range(100):
        durations.add(501_300)
    assert 500_000 < quantile(durations.counts, 0.5) < quantile(durations.counts, 0.99) <= 510_000


def test_what_is_older_than_a_minute_counts_no_more():
    windows, durations = Windows(), Durations()
    for _ in range(100):
        durations.add(900_000)
    assert windows.quantiles_ms("x", durations, 0.0)["0.50"] > 500
    for second in range(10, 130, 10):
        durations.add(80)
        recent = windows.quantiles_ms("x", durations, float(second))
    assert recent["0.999"] <= 0.1


def image(*partitions: PartitionImage, **configs: str) -> MetadataImage:
    topic = TopicImage("t", UUID(int=1), False, partitions)
    return MetadataImage(
        topics_by_name={"t": topic},
        topics_by_id={topic.topic_id: topic},
        configs={(ResourceType.TOPIC, "t"): configs} if configs else {},
    )


def partition(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, **fields) -> PartitionImage:
    return PartitionImage(replicas, isr, leader, 0, 0, **fields)


def test_partitions_are_counted_where_they_are_led():
    found = counts(
        image(
            partition((1, 2, 3), (1, 2, 3), 1),
            partition((1, 2, 3), (1,), 1),
            partition((2, 3, 1), (2,), 2),
            partition((2, 1, 3), (1, 3), 1),
            partition((2, 3, 4), (3,), -1),
            **{"min.insync.replicas": "2"},
        ),
        node_id=1,
        default_min_isr=1,
    )
    assert found == (4, 3, 2, 1, 1, 1, 1, 0)


def test_a_partition_with_one_replica_is_at_its_smallest_isr():
    assert counts(image(partition((1,), (1,), 1)), node_id=1, default_min_isr=1).at_min_isr == 1


def test_a_replica_that_is_only_being_added_is_not_missing():
    adding = partition((1, 2, 3), (1, 2), 1, adding_replicas=(3,))
    assert counts(image(adding), 1, 1).under_replicated == 0
    assert counts(image(adding), 1, 1).reassigning == 1
    assert counts(image(partition((1, 2, 3), (1, 2), 1)), 1, 1).under_replicated == 1


def test_the_average_and_the_longest_are_of_the_last_minute():
    times = RecentTimes()
    assert all(math.isnan(each) for each in times.average_and_longest_ms(0))
    times.add(2_000, 40_000_000)
    times.add(4_000, 41_000_000)
    assert times.average_and_longest_ms(45_000_000) == (3, 4)
    times.add(6_000, 75_000_000)
    assert times.average_and_longest_ms(80_000_000) == (4, 6)
    assert times.average_and_longest_ms(110_000_000) == (6, 6)
    assert all(math.isnan(each) for each in times.average_and_longest_ms(140_000_000))


class _Times:
    def __init__(self) -> None:
        self.us = 0

    def now_us(self) -> int:
        return self.us


class _Services:
    def __init__(self) -> None:
        self.request_times = _Times()
        self.stopping = False


def test_a_loop_that_is_held_up_is_reported():
    services = _Services()
    health = Health(services)  # type: ignore[arg-type]
    assert health.live() is None
    services.request_times.us = 20_000_000
    assert health.live() == "the event loop has not turned for 20 s"
    services.stopping = True
    assert health.ready() == "the broker drains"
