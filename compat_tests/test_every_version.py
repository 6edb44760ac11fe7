"""Every advertised version of every API is sent to both brokers, and the answers are compared."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from compat_tests import (
    every_version_consumer_groups,  # noqa: F401 - they register scripts
    every_version_fetch,  # noqa: F401
    every_version_security,  # noqa: F401
)
from compat_tests.comparison import Comparison, differences
from compat_tests.every_version import SCRIPTS, Stage, Wire, advertised, comparable
from compat_tests.every_version_admin import config_resources_other_than_topics, levels_there_and_back
from compat_tests.every_version_transactions import refused_batches
from odradek.wire.api_keys import ADVERTISED, OWN_VERSIONS, ApiKey

DURABLE = "a record is acknowledged only once it is on disk: flush.messages is 1 (docs/differences.md)"
JOINS_AGAIN = "a static member that repeats its join with the same id is not refused (docs/differences.md)"
OUR_WORDS = "messages of errors are in our own words"
NO_CONTROLLER = "there is no listener for controllers: the quorum is reached where clients are"
RESTARTS = "Kafka's quorum elects its leader anew at each start, and other tests restart the broker"
KNOWN_DIFFERENCES: list[tuple[ApiKey, int, str, str]] = [
    (ApiKey.CREATE_TOPICS, 5, r".*configs\[7\]\.value", DURABLE),
    (ApiKey.DELETE_TOPICS, 5, r".*error_message", OUR_WORDS),
    (ApiKey.DESCRIBE_QUORUM, 2, r"\[0\]\.nodes\[0\]", NO_CONTROLLER),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, r"\[47\]\..*", JOINS_AGAIN),
]
"""API, the first version with the difference, the paths in its answers as a regular expression, and the reason.

A difference that is listed here and no longer happens fails its test.
"""
CHANCE: list[tuple[ApiKey, str, str]] = [(ApiKey.DESCRIBE_QUORUM, r".*leader_epoch", RESTARTS)]
"""Paths that may differ, depending on earlier tests."""


def test_every_advertised_api_has_a_script() -> None:
    assert set(SCRIPTS) == set(ADVERTISED) - set(OWN_VERSIONS)


@pytest.mark.parametrize(("key", "version"), advertised(), ids=lambda value: getattr(value, "name", f"v{value}"))
def test_the_answer_is_kafkas(comparison: Comparison, key: ApiKey, version: int) -> None:
    name = f"{key.name.lower().replace('_', '-')}-{version}-{secrets.token_hex(3)}"
    ours = _observe(comparison.odradek.bootstrap, key, version, name)
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    kafkas = _observe(comparison.kafka.bootstrap, key, version, name)
    found = dict(differences(kafkas, ours))
    assert unexplained(found, key, version) == {}, "each path with (Kafka's, ours)"
    assert [each for each in known(key, version) if not any(re.fullmatch(each, path) for path in found)] == [], "stale"
    comparison.driven.add((key, version))


def known(key: ApiKey, version: int) -> list[str]:
    """The paths of an answer with known differences."""
    return [pattern for api, first, pattern, _ in KNOWN_DIFFERENCES if api is key and version >= first]


def unexplained(found: Mapping[str, Any], key: ApiKey, version: int) -> dict[str, Any]:
    """The differences, except known and random ones."""
    patterns = [*known(key, version), *(pattern for api, pattern, _ in CHANCE if api is key)]
    return {path: values for path, values in found.items() if not _matches(patterns, path)}


@pytest.mark.parametrize("version", range(3, ADVERTISED[ApiKey.PRODUCE][1] + 1))
def test_batches_outside_of_transactions_are_refused_as_kafka_refuses_them(
    comparison: Comparison, version: int
) -> None:
    name = f"refused-{version}-{secrets.token_hex(3)}"
    observed: list[list[Any]] = []
    assert comparison.kafka is not None, "no real Kafka to compare with"
    for broker in (comparison.kafka, comparison.odradek):
        with Wire(broker.bootstrap) as wire:
            observed.append([comparable(answer) for answer in refused_batches(Stage(wire, name, "1"), version)])
    kafkas, ours = observed
    found = {path: values for path, values in differences(kafkas, ours) if not path.endswith("error_message")}
    assert found == {}, "each path with (Kafka's, ours)"


@pytest.mark.parametrize("play", [config_resources_other_than_topics, levels_there_and_back])
def test_administration_step_by_step_is_kafkas(comparison: Comparison, play: Callable[[Stage], Iterator[Any]]) -> None:
    assert comparison.kafka is not None, "no real Kafka to compare with"
    name = f"played-{secrets.token_hex(3)}"
    observed: list[list[Any]] = []
    for broker in (comparison.kafka, comparison.odradek):
        with Wire(broker.bootstrap) as wire:
            observed.append([comparable(each) for each in play(Stage(wire, name, "1"))])
    assert dict(differences(*observed)) == {}, "each path with (Kafka's, ours)"


def _matches(patterns: Sequence[str], path: str) -> bool:
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def _observe(bootstrap: str, key: ApiKey, version: int, name: str) -> list[Any]:
    with Wire(bootstrap) as wire:
        return [comparable(answer) for answer in SCRIPTS[key](Stage(wire, name, "1"), version)]
