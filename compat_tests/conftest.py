"""Starts both brokers once per session; at its end prints the matrix, and writes it if requested."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests import api_table
from compat_tests.brokers import Broker, Odradek
from compat_tests.clusters import KafkaNodes, Nodes, OdradekNodes
from compat_tests.comparison import Comparison, Resources, is_missing
from compat_tests.needs import needs
from compat_tests.processes import ROOT
from compat_tests.real_kafka import JvmKafka, UnavailableError, start_real_kafka
from compat_tests.session_result import SessionResult
from compat_tests.spark_session import start_spark

_KEY = pytest.StashKey[SessionResult]()
_RESULT = "odradek-compat"
STORAGE = {"postgres"} & {os.environ.get("ODRADEK_COMPAT_STORAGE", "")}
"""What the store of the compared Odradek needs. Spark is started by the cases that use it, which are marked."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-matrix", action="store_true", help="write docs/compat_matrix.md from this run")
    parser.addoption(
        "--write-apis",
        action="store_true",
        help=f"write {api_table.DRIVEN} and {api_table.PAGE} from this run; --write-matrix does it, too",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Silences client logs: while a broker is down they would hide the failure that matters."""
    config.stash[_KEY] = SessionResult()
    for library in ("kafka", "aiokafka"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignores sockets that client libraries leave to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(ROOT / "compat_tests"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _collect_client_garbage() -> Iterator[None]:
    """Collects what a client library left behind here, and not within another test."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.collect()


def pytest_report_header() -> str:
    forced = os.environ.get("ODRADEK_KAFKA_PROVIDER") or os.environ.get("KAFKA_IMAGE")
    chosen = forced or "testcontainers, else the local JVM"
    return f"compat: real Kafka from {chosen}; the terminal summary says which served"


def _real_kafka() -> Broker | None:
    try:
        return start_real_kafka()
    except UnavailableError:
        if is_missing("Java"):
            return None
        raise


def _subject() -> Broker:
    """Odradek; with ODRADEK_COMPAT_SUBJECT=jvm a second real Kafka, to find scripts that are not deterministic."""
    return JvmKafka() if os.environ.get("ODRADEK_COMPAT_SUBJECT") == "jvm" else Odradek()


@pytest.fixture(scope="session")
@needs("containers", "java", "processes", *STORAGE, only=True)
def comparison(request: pytest.FixtureRequest) -> Iterator[Comparison]:
    """Both brokers, running."""
    kafka = _real_kafka()
    try:
        subject = _subject()
    except BaseException:
        if kafka is not None:
            kafka.stop()
        raise
    both = Comparison(kafka, subject, Resources(start_spark))
    yield both
    request.config.stash[_KEY].take(both)
    both.resources.close()
    for broker in (subject, kafka):
        if broker is not None:
            broker.stop()


@pytest.fixture(scope="session")
def real_kafka(comparison: Comparison) -> Broker:
    """The real Kafka alone. Fails if there is none."""
    assert comparison.kafka is not None, "no real Kafka here (ODRADEK_NO_JAVA=1)"
    return comparison.kafka


@pytest.fixture(scope="session")
def kafka_nodes() -> Iterator[Nodes]:
    """Three nodes of a real Kafka."""
    if is_missing("Java"):
        pytest.skip("not run: no Java, and the environment says that this is known")
    nodes = KafkaNodes()
    yield nodes
    nodes.stop()


@pytest.fixture(scope="session")
def odradek_nodes() -> Iterator[Nodes]:
    """Three nodes of Odradek."""
    nodes = OdradekNodes()
    yield nodes
    nodes.stop()


@pytest.fixture(scope="session")
@needs("java", "processes", only=True)
def three_nodes(kafka_nodes: Nodes, odradek_nodes: Nodes) -> Iterator[Comparison]:
    """The same as `comparison`, for clusters. Its cases have no rows in the matrix."""
    both = Comparison(kafka_nodes, odradek_nodes, Resources(start_spark), prefix="three-nodes-")
    yield both
    both.resources.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that runs a part of the session passes its result to the one that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_RESULT] = session.config.stash[_KEY].as_text()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Adds the result of a process that ran a part of the session; one that crashed has none."""
    text = getattr(node, "workeroutput", {}).get(_RESULT)
    if text is not None:
        node.config.stash[_KEY].take_text(text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    result = config.stash[_KEY]
    if not result.served:
        return
    terminalreporter.section("Kafka compatibility")
    for line in result.lines():
        terminalreporter.write_line(line)
    written: list[str] = []
    if config.getoption("--write-matrix"):
        written.append(result.write_matrix())
    if config.getoption("--write-matrix") or config.getoption("--write-apis"):
        written += result.write_apis()
    for page in written:
        terminalreporter.write_line(f"wrote {page}")
