"""Specifics of logs in a database: schema, ownership, transactions shared by logs, deletion of rows."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from threading import Event

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import (
    LogPolicy,
    OffsetNotInStoreError,
    StoreError,
    StoreFormatError,
    StoreLockedError,
)
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.sql import queries
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.schema import METADATA, OUTBOX_METADATA, VERSION
from odradek.storage_backends.sql.store import SqlStore
from odradek.storage_backends.testing.access import base_offsets, contents, fill, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY, SIBLING
from tests.long_form import rounds

SMALL_SEGMENTS = LogPolicy(segment_bytes=500)
ROUNDS = rounds(5, 200)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return request.getfixturevalue("postgres")


def run(url, *statements):
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        results = [connection.execute(text(statement)) for statement in statements]
        rows = [result.all() if result.returns_rows else [] for result in results]
    engine.dispose()
    return rows[-1]


class TestSchema:
    def test_the_migrations_make_the_tables_of_the_store(self, url):
        SqlStore(url).close()
        engine = create_engine(url)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": "odradek_schema"})
            known = METADATA if engine.dialect.name == "sqlite" else [METADATA, OUTBOX_METADATA]
            assert compare_metadata(context, known) == []
        engine.dispose()

    def test_a_newer_schema_is_refused_with_both_versions_named(self, url):
        SqlStore(url).close()
        run(url, "UPDATE odradek_schema SET version_num = '0099'")
        with pytest.raises(StoreFormatError, match=rf"schema 0099.*up to {VERSION}"):
            SqlStore(url)


class TestOwner:
    def test_an_owner_that_stalls_while_another_takes_over_writes_no_more(self, url):
        with closing(SqlStore(url)) as stalled:
            log = stalled.open(KEY, SMALL_SEGMENTS)
            fill(log, 3)
            run(url, "UPDATE odradek_owner SET epoch = epoch + 1")  # as a takeover does
            with pytest.raises(StoreLockedError, match="taken over"):
                fill(log, 1, start=3)
            assert log.failed
        with closing(SqlStore(url)) as store:
            assert store.open(KEY, SMALL_SEGMENTS).load().log_end_offset == 3

    def test_the_lock_of_a_broken_connection_lets_another_broker_take_over(self, postgres):
        with closing(SqlStore(postgres)) as stalled:
            log = stalled.open(KEY, SMALL_SEGMENTS)
            fill(log, 3)
            run(postgres, CUT)
            with closing(SqlStore(postgres)) as store:
                assert store.open(KEY, SMALL_SEGMENTS).load().log_end_offset == 3
                with pytest.raises(StoreError):
                    fill(log, 1, start=3)


CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


class TestConnections:
    def test_a_log_whose_connections_broke_is_opened_again(self, postgres):
        with closing(SqlStore(postgres)) as store:
            log = store.open(KEY, SMALL_SEGMENTS)
            fill(log, 3)
            run(postgres, CUT)
            fill(log, 1, start=3)  # connections are tested before use
            assert base_offsets(log) == [0, 1, 2, 3]

    def test_a_database_that_is_away_and_comes_back(self, postgres, postgres_server):
        with closing(SqlStore(postgres)) as store:
            log = store.open(KEY, SMALL_SEGMENTS)
            fill(log, 3)
            postgres_server.kill()
            with pytest.raises(StoreError, match="committing in"):
                fill(log, 1, start=3)
            log.close()
            with pytest.raises(StoreError, match="opening orders-0"):
                store.open(KEY, SMALL_SEGMENTS)
            postgres_server.start()
            log = store.open(KEY, SMALL_SEGMENTS)
            assert log.load().log_end_offset == 3
            fill(log, 1, start=3)


class TestSharedTransactions:
    def test_commits_that_wait_together_share_one(self, url):
        with closing(SqlStore(url)) as store:
            logs = [store.open(key, SMALL_SEGMENTS) for key in (KEY, SIBLING)]
            first, others = Event(), Event()

            def hold(_):
                first.set()
                others.wait()

            with ThreadPoolExecutor(4) as pool:
                holding = pool.submit(store.group.run, hold)
                first.wait()
                before = store.group.transactions
                waiting = [pool.submit(log.commit, [LogWrite([make_batch(0)])], sync=True) for log in logs]
                while store.group.waiting < 2:
                    Event().wait(0.01)
                others.set()
                for each in [holding, *waiting]:
                    each.result()
            assert store.group.transactions == before + 2  # one for the held commit, and one for both others
            assert [log.load().log_end_offset for log in logs] == [1, 1]


class TestOpen:
    def test_a_log_that_is_being_opened_is_not_opened_deleted_or_set_aside_by_others(self, url, monkeypatch):
        with closing(SqlStore(url)) as store:
            make_log, refusals = store.make_log, []

            def make_slowly(*arguments):
                for operation in (partial(store.open, policy=SMALL_SEGMENTS), store.delete, store.set_aside):
                    with pytest.raises(StoreError, match="is open") as refused:
                        operation(KEY)
                    refusals.append(str(refused.value))
                return make_log(*arguments)

            monkeypatch.setattr(store, "make_log", make_slowly)
            store.open(KEY, SMALL_SEGMENTS).close()
            assert len(refusals) == 3
            store.delete(KEY)
            with pytest.raises(StoreError, match="there is no log"):
                store.set_aside(KEY)

    def test_a_log_that_cannot_be_opened_can_be_opened_later(self, url, monkeypatch):
        with closing(SqlStore(url)) as store:
            with monkeypatch.context() as patch:
                patch.setattr(store, "make_log", lambda *_: (_ for _ in ()).throw(StoreError("away")))
                with pytest.raises(StoreError, match="away"):
                    store.open(KEY, SMALL_SEGMENTS)
            store.open(KEY, SMALL_SEGMENTS).close()


class TestPurge:
    def test_rows_of_deleted_segments_go_soon(self, url):
        with closing(SqlStore(url)) as store:
            log = store.open(KEY, SMALL_SEGMENTS)
            fill(log, 60)
            log.commit([LogWrite(log_start_offset=50)], sync=True)
            self._wait(url, "SELECT count(*) FROM odradek_batches WHERE last_offset < 45", 0)
            assert read_all(log, 50)

    def test_what_is_deleted_while_it_is_read_is_not_in_the_log(self, url, monkeypatch):
        """The read returns nothing, and not a later batch."""
        with closing(SqlStore(url)) as store:
            fill(store.open(KEY, SMALL_SEGMENTS), 60)
        with closing(SqlStore(url)) as store:  # reopened, so that nothing is in memory
            log = store.open(KEY, SMALL_SEGMENTS)

            def read_late(*arguments):
                monkeypatch.undo()
                log.commit([LogWrite(log_start_offset=50)], sync=True)
                self._wait(url, "SELECT count(*) FROM odradek_batches WHERE last_offset < 45", 0)
                return queries.read(*arguments)

            monkeypatch.setattr("odradek.storage_backends.sql.partition.queries.read", read_late)
            with pytest.raises(OffsetNotInStoreError):
                log.read(10, 60, 100_000)

    def test_a_deleted_log_goes_wholly_also_when_the_store_is_closed_at_once(self, url):
        with closing(SqlStore(url)) as store:
            log = store.open(KEY, SMALL_SEGMENTS)
            fill(log, 60)
            log.close()
            store.delete(KEY)
            assert store.partitions() == []
        with closing(SqlStore(url)):
            for table in ("batches", "segments", "logs"):
                self._wait(url, f"SELECT count(*) FROM odradek_{table}", 0)

    def _wait(self, url, query, wanted):
        for _ in range(300):
            if run(url, query)[0][0] == wanted:
                return
            Event().wait(0.05)
        pytest.fail(f"{query}: {run(url, query)}")


class TestKill9:
    """A writer killed at random moments, over one database."""

    @pytest.mark.torture
    def test_every_acknowledged_commit_is_there_in_order(self, url):
        random, acknowledged = Random(url), 0
        for _ in range(ROUNDS):
            acknowledged = max(acknowledged, self._run_and_kill(url, random.randint(1, 40)))
            with closing(self._opened(url)) as store:
                log = store.open(KEY, LogPolicy(segment_bytes=20_000))
                snapshot = log.load()
                assert snapshot.log_end_offset >= acknowledged
                for base, data in contents(log).items():
                    payload = b"%d" % base * (1 + base % 200)
                    assert data == make_batch(base, 2, max_timestamp_ms=base, payload=payload).data
                assert max(int(state) for state in snapshot.producers.values()) == snapshot.log_end_offset - 2
        assert acknowledged > 20

    def _opened(self, url):
        """Retries, since PostgreSQL notices the end of a process slightly later."""
        for _ in range(100):
            try:
                return open_store(url)
            except StoreLockedError:
                Event().wait(0.1)
        return open_store(url)

    def _run_and_kill(self, url, after_lines) -> int:
        self._opened(url).close()
        script = Path(__file__).with_name("committing_process.py")
        process = subprocess.Popen([sys.executable, script, url, "sync"], stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(after_lines + 1)]
        process.kill()
        lines += process.stdout.readlines()
        process.stdout.close()
        process.wait()
        whole = [line for line in lines if line.endswith("\n")]
        return int(whole[-1].split()[-1])


def test_where_it_is(url):
    """The location in DescribeLogDirs: a path as in Kafka, or the database's URL without its password."""
    with closing(SqlStore(url)) as store:
        expected = url.removeprefix("sqlite:///")
        assert store.space().location == (expected if url.startswith("sqlite") else url)


def test_passwords_are_not_shown():
    assert "secret" not in Database("postgresql+psycopg://user:secret@host/name").location
