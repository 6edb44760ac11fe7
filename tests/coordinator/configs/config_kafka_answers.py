"""Recorded answers of a real Kafka, for comparison in tests."""

import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@cache
def described() -> dict[str, dict[str, Any]]:
    """Answers to DescribeConfigs, and the static configs (`static`) of the broker that gave them."""
    return json.loads((DATA / "kafka_4_3_1_describe.json").read_text())


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """Kafka's own definitions."""
    return json.loads((DATA / "kafka_4_3_1_definitions.json").read_text())


def kafka_static() -> dict[str, str]:
    """The real broker's static configs; Kafka adds broker.id to node.id."""
    static = described()["static"]
    return {**static, "broker.id": static["node.id"]}
