"""Fixtures that come with the package: a real broker or cluster for a test session, and a fresh topic for a test.

    def test_hello(kafka_broker, kafka_topic):
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
        producer.send(kafka_topic, b"hello").get()

The broker starts with the first test that uses it and listens on a free port, so under pytest-xdist each worker has
its own. Settings: the ini option `odradek_storage` or the command line option `--odradek-storage` (`memory://`, a
directory or a storage URL; memory by default), and the ini option `odradek_config` (lines of `name=value`, Kafka's
names). The storage is that of `kafka_broker` only; the configuration is also that of the other brokers.
`odradek_topics` (lines of `name` or `name=partitions`) are the topics with which `kafka_broker` and
`kafka_clean_broker` start.

All brokers have the methods of the test kit, `kafka_broker.records(topic)` and so on, and `kafka_broker.aio` has them
as coroutine functions for asynchronous tests.
"""

import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.gateway.testing.cluster import TestCluster
    from odradek.gateway.testing.in_process import TestBroker
    from odradek.gateway.testing.kit.faults import Faults

_BROKERS: "pytest.StashKey[list[TestBroker]]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    what = "where the test broker keeps its data: memory:// (default), a directory or a storage URL"
    parser.addini("odradek_storage", what, default="memory://")
    parser.addini("odradek_config", "further broker settings, a line of name=value each", type="linelist", default=[])
    what_topics = "topics with which the test broker starts, a line of name or name=partitions each"
    parser.addini("odradek_topics", what_topics, type="linelist", default=[])
    parser.getgroup("odradek").addoption("--odradek-storage", default=None, metavar="URL", help=what)


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> "Iterator[TestBroker]":
    """A broker that runs until the session ends; `kafka_broker.bootstrap` is its address."""
    storage = pytestconfig.getoption("--odradek-storage") or pytestconfig.getini("odradek_storage")
    with _broker(pytestconfig, storage) as running:
        yield running


@contextmanager
def _broker(config: pytest.Config, storage: str) -> "Generator[TestBroker]":
    from odradek.gateway.testing.in_process import broker

    topics: list[str] = config.getini("odradek_topics")
    with broker(storage, _settings(config), topics=dict(_topic(line) for line in topics)) as running:
        config.stash.setdefault(_BROKERS, []).append(running)
        yield running


@pytest.fixture(scope="session")
def _kafka_kept_clean(pytestconfig: pytest.Config) -> "Iterator[TestBroker]":
    with _broker(pytestconfig, "memory://") as running:
        yield running


@pytest.fixture
def kafka_clean_broker(_kafka_kept_clean: "TestBroker") -> "TestBroker":
    """A broker as it is at its start: no topics but those of `odradek_topics`, no records, no groups.

    It is one broker in memory for the session, on one port, separate from `kafka_broker`, which is reset before each
    test that uses it; that takes some milliseconds.
    """
    _kafka_kept_clean.reset()
    return _kafka_kept_clean


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Remove the faults that the test has armed. It fails here if one of them had to happen and has not."""
    for broker in item.config.stash.setdefault(_BROKERS, []):
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


def _settings(config: pytest.Config) -> dict[str, str]:
    lines: list[str] = config.getini("odradek_config")
    return dict(_setting(line) for line in lines)


def _topic(line: str) -> tuple[str, int]:
    name, _, partitions = line.partition("=")
    try:
        return name.strip(), int(partitions or 1)
    except ValueError:
        raise pytest.UsageError(f"odradek_topics: {line!r} is not of the form name or name=partitions") from None


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

    with cluster(3, _settings(pytestconfig)) as running:
        yield running


@pytest.fixture
def kafka_topic(kafka_broker: "TestBroker", request: pytest.FixtureRequest) -> str:
    """The name of a new topic with one partition; parametrise indirectly with a number for more."""
    name = f"test-{uuid.uuid1().hex}"
    kafka_broker.create_topic(name, partitions=getattr(request, "param", 1))
    return name
