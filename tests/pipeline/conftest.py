"""Fixtures for the tests of the pipeline: one Spark for the whole run, and a broker per test."""

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import odradek
from compat_tests.processes import ROOT
from compat_tests.spark_session import start_spark
from odradek.pipeline.connection import Connection
from odradek.testing import TestBroker

HERE = Path(__file__).parent
SPARK_LIMIT_S = 240
os.environ.setdefault("ODRADEK_JARS", str(ROOT / ".cache" / "jars"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignores unclosed sockets of Py4J, PySpark and librdkafka, and raises the time limit of tests with Spark.

    These libraries leave sockets to the garbage collector, which is not under test. The first test with Spark starts
    it, and every query is compiled anew.
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SPARK_LIMIT_S))


@pytest.fixture(autouse=True)
def _collect_client_garbage() -> Iterator[None]:
    """Collects the libraries' sockets here, and not within another test."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def spark():
    """The session of the compat tests, since a process can have only one; it is never stopped."""
    if os.environ.get("ODRADEK_NO_JAVA") == "1":
        pytest.skip("no Java here (ODRADEK_NO_JAVA=1)")
    return start_spark()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestBroker]:
    """A durable broker."""
    with odradek.broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    """The connection to the broker."""
    return Connection(broker.bootstrap)
