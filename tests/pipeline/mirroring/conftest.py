"""Two brokers of ours, and a real Kafka."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mirrored import Pair

import odradek
from compat_tests.brokers import Broker
from compat_tests.real_kafka import JvmKafka
from odradek.pipeline.connection import Connection


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two durable brokers."""
    keep = {"log.retention.ms": -1}  # the records of these tests have old timestamps
    with (
        odradek.broker(tmp_path / "source", config=keep) as source,
        odradek.broker(tmp_path / "target", config=keep) as target,
    ):
        yield Pair(source, target, Connection(source.bootstrap), Connection(target.bootstrap))


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    """A real Kafka."""
    if os.environ.get("ODRADEK_NO_JAVA") == "1":
        pytest.skip("no Java here (ODRADEK_NO_JAVA=1)")
    running = JvmKafka()
    yield running
    running.stop()
