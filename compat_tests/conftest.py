"""Starts both brokers once for the session; at its end prints, and on request writes, the matrix."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections.abc import Iterator

import pytest

from compat_tests import api_table, matrix
from compat_tests.brokers import Broker, Odradek
from compat_tests.clusters import KafkaNodes, Nodes, OdradekNodes
from compat_tests.comparison import Comparison, Resources, is_missing
from compat_tests.processes import ROOT
from compat_tests.real_kafka import JvmKafka, UnavailableError, start_real_kafka
from compat_tests.spark_session import quick_to_start, start_spark

_KEY = pytest.StashKey[Comparison]()
quick_to_start()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-matrix", action="store_true", help="write docs/compat_matrix.md from this run")
    parser.addoption(
        "--write-apis",
        action="store_true",
        help=f"write {api_table.DRIVEN} and {api_table.PAGE} from this run; --write-matrix does it, too",
    )


def pytest_configure() -> None:
    """What clients log while a broker is down would bury the failure that one looks for."""
    for library in ("kafka", "aiokafka"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Client libraries leave sockets to the garbage collector; that is theirs to mend, not ours to fail on."""
    for item in items:
        if item.path.is_relative_to(ROOT / "compat_tests"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _collect_client_garbage() -> Iterator[None]:
    """Let what a client library left behind go now, and not in the middle of a test about something else."""
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
    request.config.stash[_KEY] = both
    yield both
    both.resources.close()
    for broker in (subject, kafka):
        if broker is not None:
            broker.stop()


@pytest.fixture(scope="session")
def real_kafka(comparison: Comparison) -> Broker:
    """The real Kafka alone. Fails where there is none."""
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
def three_nodes(kafka_nodes: Nodes, odradek_nodes: Nodes) -> Iterator[Comparison]:
    """The same as `comparison`, of clusters. Its cases are no rows of the matrix."""
    both = Comparison(kafka_nodes, odradek_nodes, Resources(start_spark), prefix="three-nodes-")
    yield both
    both.resources.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    both = config.stash.get(_KEY, None)
    if both is None:
        return
    served = both.kafka.provider if both.kafka else "none (ODRADEK_NO_JAVA=1)"
    terminalreporter.section("Kafka compatibility")
    terminalreporter.write_line(f"real Kafka served by: {served}; compared with: {both.odradek.provider}")
    for line in matrix.terminal_lines(both.outcomes):
        terminalreporter.write_line(line)
    for line in _slowest(both):
        terminalreporter.write_line(line)
    if config.getoption("--write-matrix"):
        page = ROOT / "docs" / "compat_matrix.md"
        page.write_text(matrix.markdown(both.outcomes, served, both.odradek.provider))
        terminalreporter.write_line(f"wrote {page.relative_to(ROOT)}")
    if config.getoption("--write-matrix") or config.getoption("--write-apis"):
        api_table.write_driven(both.driven)
        api_table.write_page()
        terminalreporter.write_line(f"wrote {api_table.DRIVEN} and {api_table.PAGE}")


def _slowest(both: Comparison) -> list[str]:
    longest = sorted(both.outcomes, key=lambda o: -sum(o.seconds.values()))[:8]
    return [
        f"slow: {o.case.client}/{o.case.name}: " + ", ".join(f"{k} {v:.1f} s" for k, v in o.seconds.items())
        for o in longest
    ]
