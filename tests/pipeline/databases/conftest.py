"""Databases for these tests: a SQLite file, a database of a real PostgreSQL, or each in turn."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]


HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves the sockets that it collected rows over to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _collect_sparks_sockets() -> Iterator[None]:
    """Let them go now, and not in the middle of a test about something else."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.collect()


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The URL of a SQLite database that is not there yet."""
    return f"sqlite:///{tmp_path}/test.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database: SQLite, then PostgreSQL."""
    return request.getfixturevalue(request.param)
