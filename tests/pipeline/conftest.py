"""What the tests of the pipeline share: one Spark for the whole run, and brokers of their own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import odradek
from compat_tests.processes import ROOT
from compat_tests.spark_session import start_spark
from odradek.pipeline.connection import Connection
from odradek.testing import TestBroker

os.environ.setdefault("ODRADEK_JARS", str(ROOT / ".cache" / "jars"))


@pytest.fixture(scope="session")
def spark():
    """The session of the compat tests, since a process has one; it is never stopped before the process ends."""
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
    """How to reach it."""
    return Connection(broker.bootstrap)
