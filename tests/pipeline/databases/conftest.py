"""Databases for these tests: a SQLite file, a database of a real PostgreSQL, or each in turn."""

from pathlib import Path

import pytest

from tests.pipeline.archive.conftest import small_disk
from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server", "small_disk"]


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The URL of a SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path}/test.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database: SQLite, then PostgreSQL."""
    return request.getfixturevalue(request.param)
