"""The clients' cases over three nodes: a few of each client, all of them with ODRADEK_CLUSTER_CLIENTS=all.

Cases about the crash of a single broker are excluded: `test_cluster_history.py` and `tests/gateway/testing` kill the
nodes of a cluster.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from compat_tests import (
    test_aiokafka,
    test_java_client,
    test_java_tools,
    test_kafka_python,
    test_kcat,
    test_librdkafka,
    test_spark,
)
from compat_tests.comparison import Case, Comparison
from compat_tests.test_java_client import java_vm  # noqa: F401 - a fixture

FEW = {
    "librdkafka/key-hashing",
    "librdkafka/two-groups",
    "librdkafka/transactions",
    "librdkafka/consumer-protocol",
    "kafka-python/many-partitions",
    "kafka-python/two-groups",
    "aiokafka/seek-and-replay",
    "java-tools/transactions",
}
"""Cases for which several brokers matter most: leaders on several nodes, groups of both protocols, transactions."""
OF_ONE_BROKER = {
    "crash-resume",
    "idempotent-retry",
    "tools",
    "administration",
    "configs",
}
"""Rows that crash the broker, or check a single broker's answers about itself."""
RACES = {
    "aiokafka/unknown-topic": "whether Kafka's next broker knows a topic that the one before has just created by itself"
}
"""Cases whose outcome over several brokers is undetermined in Kafka as well, with what it depends on."""
BOOKS = (
    test_kafka_python.BOOK,
    test_librdkafka.BOOK,
    test_aiokafka.BOOK,
    test_kcat.BOOK,
    test_java_client.BOOK,
    test_java_tools.BOOK,
    test_spark.BOOK,
)


def chosen() -> list[Any]:
    """The cases to run, each under its client and name."""
    everything = os.environ.get("ODRADEK_CLUSTER_CLIENTS") == "all"
    cases = [
        case for book in BOOKS for case in book.cases if case.row not in OF_ONE_BROKER and "crash" not in case.name
    ]
    return [
        pytest.param(case, id=f"{case.client}-{case.name}", marks=case.marks)
        for case in cases
        if (name := f"{case.client}/{case.name}") in FEW or (everything and name not in RACES)
    ]


@pytest.mark.parametrize("case", chosen())
def test_case(case: Case, three_nodes: Comparison) -> None:
    three_nodes.check(case)
