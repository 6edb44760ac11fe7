"""Java's and librdkafka's clients at the same time on several brokers, with one kind of fault after the other.

Their history must have no anomalies, and every client must be served again during and after each fault, within the
limit of `compat_tests/history/bounds.py`. The measured times are printed at the end of the run. With
ODRADEK_COMPAT_SUBJECT=jvm the brokers are those of a real Kafka.
`tests/gateway/testing/test_cluster_faults.py` has the same faults and more for librdkafka alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.comparison import is_missing
from compat_tests.history import faults
from compat_tests.history.kafka_cluster import KafkaCluster, is_kafka
from compat_tests.history.load import Load
from compat_tests.history.served import ServedTimes
from compat_tests.java_clients import JavaVm
from odradek.gateway.testing.cluster import TestCluster
from tests.long_form import LONG

TOPIC = "faults"
BY_THREE = [
    "kill-leader", "kill-controller", "kill-follower", "kill-all-at-once", "hang", "cut-both-ways",
    "wiped-disk", "full-disk", "rolling-restart",
]  # fmt: skip
"""The faults for three brokers. `pair-cut` is missing: the coordinators of two transactional ids may leave no two
brokers. `cut-one-way` is a test of its own, in the long form."""

Measuring = Callable[[str, object], None]


@contextmanager
def loaded(brokers: int, directory: Path, tell: Measuring, replicas: int = 3) -> Iterator[tuple[TestCluster, Load]]:
    """Start brokers, all of them controllers, and a load on as many partitions; check its history at the end."""
    program, name = (KafkaCluster, "Kafka") if is_kafka() else (TestCluster, "Odradek")
    java = None if is_missing("Java") else JavaVm()
    try:
        with program(brokers, faults.settings(replicas), directory, controllers=brokers, quick=False) as cluster:
            cluster.create_topic(TOPIC, brokers, replicas, {"min.insync.replicas": 2})
            times = ServedTimes(f"{name}, {brokers} nodes", tell)
            with Load(cluster.bootstrap, TOPIC, brokers, java, times) as load:
                yield cluster, load
                assert load.judged() == []
    finally:
        if java is not None:
            java.close()


@pytest.mark.timeout(900)
def test_no_anomalies_while_brokers_fail(tmp_path: Path, record_property: Measuring) -> None:
    with loaded(3, tmp_path, record_property) as (cluster, load):
        for name in BY_THREE:
            faults.FAULTS[name](cluster, load)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.skipif(not LONG, reason="make torture; the short form cuts the links both ways")
def test_no_anomalies_while_a_leader_is_cut_off_one_way(tmp_path: Path, record_property: Measuring) -> None:
    with loaded(3, tmp_path, record_property) as (cluster, load):
        faults.FAULTS["cut-one-way"](cluster, load)


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not LONG, reason="make torture; the short form has three brokers")
@pytest.mark.parametrize("name", list(faults.OF_FIVE))
def test_no_anomalies_while_some_of_five_brokers_fail(name: str, tmp_path: Path, record_property: Measuring) -> None:
    replicas = 5 if name in faults.OF_FIVE_REPLICAS else 3
    with loaded(5, tmp_path, record_property, replicas) as (cluster, load):
        faults.OF_FIVE[name](cluster, load)
