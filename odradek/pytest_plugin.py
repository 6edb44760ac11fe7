"""Fixtures that come with the package: a real broker or cluster for a test session, and a fresh topic for a test.

    def test_hello(kafka_broker, kafka_topic):
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
        producer.send(kafka_topic, b"hello").get()

The broker starts with the first test that uses it and listens on a free port, so under pytest-xdist each worker has
its own. Settings: the ini option `odradek_storage` or the command line option `--odradek-storage` (`memory://`, a
directory or a storage URL; memory by default), and the ini option `odradek_config` (lines of `name=value`, Kafka's
names). The storage is that of `kafka_broker` only; the configuration is also that of `kafka_cluster`.
"""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.gateway.testing.cluster import TestCluster
    from odradek.gateway.testing.in_process import TestBroker
    from odradek.gateway.testing.kit.faults import Faults

_BROKER: "pytest.StashKey[TestBroker]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    what = "where the test broker keeps its data: memory:// (default), a directory or a storage URL"
    parser.addini("odradek_storage", what, default="memory://")
    parser.addini("odradek_config", "further broker settings, a line of name=value each", type="linelist", default=[])
    parser.getgroup("odradek").addoption("--odradek-storage", default=None, metavar="URL", help=what)


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> "Iterator[TestBroker]":
    """A broker that runs until the session ends; `kafka_broker.bootstrap` is its address."""
    from odradek.gateway.testing.in_process import broker

    storage = pytestconfig.getoption("--odradek-storage") or pytestconfig.getini("odradek_storage")
    lines: list[str] = pytestconfig.getini("odradek_config")
    with broker(storage, dict(_setting(line) for line in lines)) as running:
        pytestconfig.stash[_BROKER] = running
        yield running


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Remove the faults that the test has armed. It fails here if one of them had to happen and has not."""
    broker = item.config.stash.get(_BROKER, None)
    if broker is not None:
        _end_faults(broker)


def _end_faults(broker: "TestBroker") -> None:
    broker.disk.restore()
    if broker.has_faults:
        try:
            broker.faults.check()
        finally:
            broker.faults.clear()


@pytest.fixture
def kafka_faults(kafka_broker: "TestBroker") -> "Iterator[Faults]":
    """The scripted faults of `kafka_broker`, which end with the test; also if `kafka_broker` is a fixture of yours."""
    yield kafka_broker.faults
    _end_faults(kafka_broker)


def _setting(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        raise pytest.UsageError(f"odradek_config: {line!r} is not of the form name=value")
    return name.strip(), value.strip()


@pytest.fixture(scope="session")
def kafka_cluster(pytestconfig: pytest.Config) -> "Iterator[TestCluster]":
    """A cluster of three brokers, each a process, that runs until the session ends; `kafka_cluster.kill(1)` and so on.

    A test that stops a broker has to start it again, since later tests use the same cluster.
    """
    from odradek.gateway.testing.cluster import cluster

    lines: list[str] = pytestconfig.getini("odradek_config")
    with cluster(3, dict(_setting(line) for line in lines)) as running:
        yield running


@pytest.fixture
def kafka_topic(kafka_broker: "TestBroker", request: pytest.FixtureRequest) -> str:
    """The name of a new topic with one partition; parametrise indirectly with a number for more."""
    name = f"test-{uuid.uuid1().hex}"
    kafka_broker.create_topic(name, partitions=getattr(request, "param", 1))
    return name
