"""The requests for one broker, sent to three nodes: each goes to the leader or coordinator that serves it.

`make compat-cluster` sends every version of every API, and plays all scenarios; otherwise only the newest version of
each is sent, and no scenario is played.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from compat_tests import test_group_edges, test_topic_ids, test_transactions_as_kafka
from compat_tests.cluster_wire import ClusterWire
from compat_tests.clusters import Nodes
from compat_tests.comparison import differences
from compat_tests.every_version import SCRIPTS, Stage, Wire, advertised, comparable
from compat_tests.test_every_version import unexplained
from odradek.wire.api_keys import ApiKey

EVERYTHING = os.environ.get("ODRADEK_CLUSTER_CLIENTS") == "all"
ANY_BROKER = "the broker whose name is given is chosen by chance, in Kafka too"
CHANCE: list[tuple[ApiKey, str, str]] = [
    (ApiKey.METADATA, r".*controller_id", ANY_BROKER),
    (ApiKey.DESCRIBE_CLUSTER, r".*controller_id", ANY_BROKER),
    (ApiKey.FIND_COORDINATOR, r".*node_id", "the internal topics' replicas are placed by chance"),
    (ApiKey.DESCRIBE_QUORUM, r".*", "leader, epoch and offsets; test_cluster_describe.py compares the rest"),
    (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        r"\[\d+\]\[[12]\].*",
        "asks one coordinator for several groups, which another one may coordinate",
    ),
    (
        ApiKey.DELETE_GROUPS,
        r"\[0\]\[1\].*",
        "asks one coordinator for two groups, the second of which another one may coordinate",
    ),
    (
        ApiKey.DESCRIBE_GROUPS,
        r"\[0\].*|\[1\]\[1\]\..*",
        "Kafka answers a join before the group is replicated, and describes what is; the second group is another's",
    ),
]
"""Paths that may differ, depending on placement and timing; with the reason."""

Scenario = Callable[[Wire], Iterator[Any]]


def chosen() -> list[tuple[ApiKey, int]]:
    """The versions to send."""
    return advertised() if EVERYTHING else list(dict(advertised()).items())


def scenarios() -> list[Any]:
    """All other scenarios that use one connection to one broker, each with its deliberate differences."""
    found: dict[str, Callable[[Wire, str], Iterator[Any]]] = {}
    known = {f"group-{name}": pairs for name, pairs in test_group_edges.KNOWN.items()}
    for name, play in test_group_edges.SCENARIOS.items():
        found[f"group-{name}"] = lambda wire, prefix, play=play: play(test_group_edges.Scene(wire, prefix))
    for name, play in test_topic_ids.SCENARIOS.items():
        found[f"topic-id-{name}"] = lambda wire, prefix, play=play: play(test_topic_ids.Bench(wire, f"{prefix}-"))
    for play in test_transactions_as_kafka.SCENARIOS:
        found[f"transaction-{play.__name__}"] = lambda wire, prefix, play=play: play(Stage(wire, prefix, "1"))
    return [pytest.param(play, known.get(name, {}), id=name.replace("_", "-")) for name, play in found.items()]


def observed(nodes: Nodes, scenario: Scenario) -> list[Any]:
    """The answers of a side, as plain data."""
    with ClusterWire(nodes) as wire:
        return [comparable(answer) for answer in scenario(wire)]


def compared(kafka_nodes: Nodes, odradek_nodes: Nodes, scenario: Scenario) -> dict[str, Any]:
    """The differences between the sides: each path with (Kafka's, ours)."""
    return dict(differences(observed(kafka_nodes, scenario), observed(odradek_nodes, scenario)))


@pytest.mark.parametrize(("key", "version"), chosen(), ids=lambda value: getattr(value, "name", f"v{value}"))
def test_the_answer_is_kafkas(kafka_nodes: Nodes, odradek_nodes: Nodes, key: ApiKey, version: int) -> None:
    name = f"{key.name.lower().replace('_', '-')}-{version}-{secrets.token_hex(3)}"
    found = compared(kafka_nodes, odradek_nodes, lambda wire: SCRIPTS[key](Stage(wire, name, "1"), version))
    chance = [pattern for api, pattern, _ in CHANCE if api is key]
    left = unexplained(found, key, version)
    assert {path: pair for path, pair in left.items() if not any(re.fullmatch(each, path) for each in chance)} == {}


@pytest.mark.skipif(not EVERYTHING, reason="make compat-cluster plays them")
@pytest.mark.parametrize(("play", "known"), scenarios())
def test_a_scenario_goes_as_kafkas(
    kafka_nodes: Nodes,
    odradek_nodes: Nodes,
    play: Callable[[Wire, str], Iterator[Any]],
    known: Mapping[str, tuple[Any, Any]],
) -> None:
    prefix = f"played-{secrets.token_hex(3)}"
    found = compared(kafka_nodes, odradek_nodes, lambda wire: play(wire, prefix))
    assert {path: pair for path, pair in found.items() if not path.endswith("error_message")} == known
