"""SQLite's write-ahead log is checkpointed in parallel with commits, and does not grow without bound."""

from contextlib import closing, contextmanager
from threading import Event

import pytest

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.sql import checkpoints
from odradek.storage_backends.sql.store import SqlStore
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY

COMMITS = 40
BATCH = b"x" * 100_000


@pytest.fixture
def file(tmp_path):
    return tmp_path / "store.db"


def commit(log, count=COMMITS):
    start = log.load().log_end_offset
    for offset in range(start, start + count):
        log.commit([LogWrite([make_batch(offset, payload=BATCH)])], sync=True)


def test_a_thread_copies_what_has_come(file, monkeypatch):
    monkeypatch.setattr(checkpoints, "PASS_BYTES", 1_000_000)
    with closing(SqlStore(f"sqlite:///{file}")) as store:
        before = file.stat().st_size
        commit(store.open(KEY, LogPolicy()))
        for _ in range(600):
            if file.stat().st_size > before + 2_000_000:
                break
            Event().wait(0.05)
        assert file.stat().st_size > before + 2_000_000


def test_the_log_begins_anew_once_it_is_long(file, monkeypatch):
    monkeypatch.setattr(checkpoints, "WHOLE_BYTES", 1_000_000)
    with closing(SqlStore(f"sqlite:///{file}")) as store:
        commit(store.open(KEY, LogPolicy()))
        assert file.with_name("store.db-wal").stat().st_size < 2_000_000


def test_commits_go_on_while_the_log_cannot_be_copied(file, monkeypatch, caplog):
    monkeypatch.setattr(checkpoints, "WHOLE_BYTES", 1_000_000)
    with closing(SqlStore(f"sqlite:///{file}")) as store:
        log = store.open(KEY, LogPolicy())
        with monkeypatch.context() as broken:
            broken.setattr(store.database, "reading", failing)
            commit(log)
        assert caplog.messages == ["the write-ahead log grows until it can be copied into the database: the disk fails"]
        commit(log)
        assert file.stat().st_size > COMMITS * len(BATCH)
        assert log.load().log_end_offset == 2 * COMMITS
    assert len(caplog.messages) == 1


@contextmanager
def failing(doing):
    assert doing == "copying the write-ahead log"
    raise StoreError("the disk fails")
    yield
