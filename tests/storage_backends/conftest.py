"""A real PostgreSQL for the tests of stores, and the rules of the system whose forms the run has selected."""

import pytest
from open_files_stay import OpenFilesStay, map_sized_files

from odradek.storage_backends.lmdb_segments.reader_table import FILES_GROW, MOVES_OPEN_FILES
from tests.postgres import postgres, postgres_server

__all__ = ["open_files_stay", "postgres", "postgres_server"]


@pytest.fixture(autouse=True)
def open_files_stay(request, monkeypatch):
    """With LMDB's table of readers in a file, no store may rename or remove a file that is open."""
    if MOVES_OPEN_FILES:
        yield
        return
    with monkeypatch.context() as patch:
        rule = OpenFilesStay(patch)
        if not FILES_GROW and request.module.__name__.endswith("test_store_conformance"):
            map_sized_files(patch)
        yield
    assert rule.refused == []
