"""Fixtures for the tests of tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.small_disk import small_file_system


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 10 MB with a file `ballast` of 7 MB; requires root."""
    with small_file_system(tmp_path / "small", 10, 7) as folder:
        yield folder
