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

`odradek_like` is the Kafka release whose APIs these two offer. When a test that uses one of the brokers fails, its
report has the last lines that the brokers have logged during the test.

All brokers have the methods of the test kit, `kafka_broker.records(topic)` and so on, and `kafka_broker.aio` has them
as coroutine functions for asynchronous tests.
"""

import logging
import re
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from odradek.gateway.testing.cluster import TestCluster
    from odradek.gateway.testing.in_process import TestBroker
    from odradek.gateway.testing.kit.faults import Faults
    from odradek.gateway.testing.kit.logs import BrokerLog

LONGEST_TOPIC: Final = 249
FIXTURES: Final = frozenset(("kafka_broker", "kafka_clean_broker", "kafka_cluster"))
"""Tests that use one of these, also by other fixtures, have the brokers' log in the report of a failure."""
_BROKERS: "pytest.StashKey[list[TestBroker]]" = pytest.StashKey()
_CLUSTERS: "pytest.StashKey[list[TestCluster]]" = pytest.StashKey()
_LOG: "pytest.StashKey[BrokerLog]" = pytest.StashKey()
_MARKS: "pytest.StashKey[tuple[int, dict[str, int]]]" = pytest.StashKey()
"""Where the logs ended when a test began: the number of lines of brokers, and the bytes of each node's file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    what = "where the test broker keeps its data: memory:// (default), a directory or a storage URL"
    parser.addini("odradek_storage", what, default="memory://")
    parser.addini("odradek_config", "further broker settings, a line of name=value each", type="linelist", default=[])
    what_topics = "topics with which the test broker starts, a line of name or name=partitions each"
    parser.addini("odradek_topics", what_topics, type="linelist", default=[])
    what_like = "the Kafka release, such as 2.8, whose APIs the test broker offers"
    parser.addini("odradek_like", what_like, default="")
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
    like = config.getini("odradek_like") or None
    with broker(storage, _settings(config), topics=dict(_topic(line) for line in topics), like=like) as running:
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
        pytestconfig.stash.setdefault(_CLUSTERS, []).append(running)
        yield running


@pytest.fixture
def kafka_topic(kafka_broker: "TestBroker", request: pytest.FixtureRequest) -> str:
    """The name of a new topic with one partition; parametrise indirectly with a number for more."""
    name = _topic_name(request.node.name)
    kafka_broker.create_topic(name, partitions=getattr(request, "param", 1))
    return name


def _topic_name(test: str) -> str:
    """A name that no other topic has, beginning with the test's as far as it may: `test_hello-3f2a91c4`."""
    unique = f"-{secrets.token_hex(4)}"
    valid = re.sub(r"[^a-zA-Z0-9._-]+", "_", test).strip("_")
    return valid[: LONGEST_TOPIC - len(unique)] + unique


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note where the brokers' logs end now."""
    if FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return
    stash = item.config.stash
    if _LOG not in stash:
        from odradek.gateway.testing.kit.logs import BrokerLog

        stash[_LOG] = BrokerLog()
        stash[_LOG].attach(_pytests_handlers(item.config))
    clusters = stash.setdefault(_CLUSTERS, [])
    files = [node.log_path for cluster in clusters for node in map(cluster.node, cluster.ids)]
    item.stash[_MARKS] = stash[_LOG].count, {str(file): file.stat().st_size for file in files if file.exists()}


def _pytests_handlers(config: pytest.Config) -> list[logging.Handler]:
    """The handlers that make `caplog` and the sections of captured log lines; pytest has no public way to them."""
    plugin = config.pluginmanager.get_plugin("logging-plugin")
    names = ("caplog_handler", "report_handler", "log_cli_handler", "log_file_handler")
    found = [getattr(plugin, name, None) for name in names]
    return [handler for handler in found if isinstance(handler, logging.Handler)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the brokers have logged since the test began to the report of its failure."""
    report = yield
    if report.failed and _MARKS in item.stash:
        report.sections += [(f"{title} log", text) for title, text in _logged(item) if text]
    return report


def _logged(item: pytest.Item) -> Iterator[tuple[str, str]]:
    from odradek.gateway.testing.kit.logs import tail_of_node

    lines, sizes = item.stash[_MARKS]
    yield "Kafka broker", item.config.stash[_LOG].since(lines)
    if "kafka_cluster" in getattr(item, "fixturenames", ()):
        for cluster in item.config.stash[_CLUSTERS]:
            for node in map(cluster.node, cluster.ids):
                yield f"Kafka node {node.plan.node_id}", tail_of_node(node.log_path, sizes.get(str(node.log_path), 0))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the logger of the brokers as it was."""
    if _LOG in config.stash:
        config.stash[_LOG].detach()
