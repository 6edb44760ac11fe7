"""The same random sequence of group requests to Kafka and to Odradek gives the same codes and effects.

A failure prints its seed and script; `ODRADEK_GROUP_SEEDS=5,17` plays these seeds instead, `ODRADEK_GROUP_SEEDS=0-99` a
range of them. One seed of each run is new.
"""

from __future__ import annotations

import os
import secrets
from typing import Any

import pytest

from compat_tests.comparison import Comparison, differences
from compat_tests.frames import RawConnection, create_topic
from compat_tests.random_group_play import BrokerChannel, Play
from compat_tests.random_groups import PARTITIONS
from compat_tests.raw_groups import find_coordinator

CONSUMERS = 4
SCRIPTS = 8
"""The number of groups per seed, one after the other."""
STEPS = 60
NEW = "new"


def seeds() -> list[int | str]:
    """The requested seeds, or some fixed ones and a new one.

    The new one is drawn within the test: if several processes run the session, all must collect the same tests.
    """
    asked = os.environ.get("ODRADEK_GROUP_SEEDS")
    if not asked:
        return [*range(5), NEW]
    first, dash, last = asked.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(seed) for seed in asked.split(",")]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", seeds())
def test_random_requests_have_the_same_effects(comparison: Comparison, seed: int | str) -> None:
    if isinstance(seed, str):
        seed = secrets.randbelow(10**9)
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    topic, steps = f"random-groups-{seed}-{secrets.token_hex(3)}", 0
    channels: dict[str, BrokerChannel] = {}
    try:
        for broker in (comparison.kafka, comparison.odradek):
            assert create_topic(broker.bootstrap, topic, PARTITIONS) == "NONE"
            channels[broker.name] = BrokerChannel(broker.bootstrap, CONSUMERS)
        for number in range(SCRIPTS):
            group = f"{topic}.{number}"
            for broker in (comparison.kafka, comparison.odradek):
                with RawConnection(broker.bootstrap) as connection:
                    find_coordinator(connection, group)
            play = Play(seed, channels, group, topic)
            found = play.run(STEPS)
            steps += play.steps
            assert found is None, _report(seed, play.script, found)
            for channel in channels.values():
                for consumer in range(CONSUMERS):
                    channel.reconnect(consumer)
    finally:
        for channel in channels.values():
            channel.close()
    assert steps >= SCRIPTS * STEPS // 4, "the scripts ended too early to say anything"


def _report(seed: int, script: list[str], found: dict[str, Any]) -> str:
    lines = "\n".join(f"  {number}. {line}" for number, line in enumerate(script))
    differ = "\n".join(f"  {path}: {pair}" for path, pair in differences(*found.values()))
    return f"seed {seed} (ODRADEK_GROUP_SEEDS={seed}):\n{lines}\nanswers of {' and '.join(found)} differ:\n{differ}"
