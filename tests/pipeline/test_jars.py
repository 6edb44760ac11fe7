"""Jars are fetched once, verified, and never left half written."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.pipeline import jars
from odradek.pipeline.errors import MissingError
from odradek.pipeline.setup import prepare

BYTES = b"a jar" * 100_000
JAR = jars.Jar("org.example", "a-jar", "1", hashlib.sha1(BYTES).hexdigest(), len(BYTES))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one jar, and an empty folder to fetch into."""
    file = tmp_path / "repository" / JAR.path
    file.parent.mkdir(parents=True)
    file.write_bytes(BYTES)
    monkeypatch.setenv(jars.REPOSITORY_VARIABLE, (tmp_path / "repository").as_uri())
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(tmp_path / "kept"))
    return file


def test_a_jar_is_fetched_once(repository: Path):
    (fetched,) = prepare([JAR])
    assert fetched.read_bytes() == BYTES
    repository.unlink()
    assert prepare([JAR]) == [fetched]


def test_other_bytes_are_refused_and_not_kept(repository: Path):
    with pytest.raises(MissingError, match="SHA-1"):
        prepare([replace(JAR, sha1="0" * 40)])
    assert list(jars.folder().iterdir()) == []


def test_an_absent_jar_gives_advice(repository: Path):
    repository.unlink()
    with pytest.raises(MissingError, match=jars.REPOSITORY_VARIABLE):
        prepare([JAR])
