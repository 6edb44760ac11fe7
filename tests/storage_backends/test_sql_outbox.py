"""The outbox in PostgreSQL without a broker: what `odradek.append` refuses and stores, and the order of reading."""

import json
import os
import resource
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier, Event
from uuid import UUID

import psycopg
import pytest
from aiokafka.partitioner import murmur2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linux_forms import waits_by_poll
from psycopg.types.json import Json, Jsonb
from sqlalchemy import create_engine, make_url

from odradek.partitions.model import LogWrite, OutboxEntry
from odradek.storage_backends.interface import LogPolicy, StoreError, StoreLockedError
from odradek.storage_backends.outbox import OutboxTopic
from odradek.storage_backends.sql.migration import run_migrations
from odradek.storage_backends.sql.store import SqlStore
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.records.builder import SimpleRecord, build_batch

T, C, SMALL = (UUID(int=number) for number in (1, 2, 3))
TOPICS = [
    OutboxTopic("t", T, 3, 1_000_000, is_compacted=False),
    OutboxTopic("compacted", C, 1, 1_000_000, is_compacted=True),
    OutboxTopic("small", SMALL, 1, 300, is_compacted=False),
]
MANY = 10_000


def conninfo(url: str) -> str:
    """The URL as libpq takes it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture(scope="module")
def shared_url(postgres_server):
    """A database for all tests of this module that do not change its store."""
    return postgres_server.create_database()


@pytest.fixture(scope="module")
def shared_store(shared_url):
    """A store in the shared database."""
    with closing(SqlStore(shared_url)) as opened:
        yield opened


@pytest.fixture
def store(shared_store, shared_url):
    """The store with three topics and an empty outbox."""
    with connected(shared_store) as connection:
        connection.execute("TRUNCATE odradek_outbox_topics, odradek_outbox, odradek_outbox_turns, odradek_outbox_dead")
    shared_store.outbox().publish(TOPICS, [])
    return shared_store


@pytest.fixture
def sql(store):
    """A user's connection, in autocommit."""
    with connected(store, autocommit=True) as connection:
        yield connection


def connected(store, **options):
    """A user's connection to the database of a store."""
    return psycopg.connect(store.database.url.set(drivername="postgresql").render_as_string(), **options)


def append(connection, topic="t", key=None, value=b"v", headers=None, partition=None):
    statement = "SELECT odradek.append(%s, %s, %s, %s, %s)"
    return connection.execute(statement, [topic, key, value, headers, partition]).fetchone()[0]


def pending(store, **limits):
    return store.outbox().pending(limits.get("records", MANY), limits.get("size_bytes", 1 << 30), ())


def values(store):
    return [record.value for record in pending(store)]


class TestPartition:
    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(key=st.binary(max_size=40))
    def test_a_key_goes_where_kafkas_clients_put_it(self, sql, key):
        assert sql.execute("SELECT odradek.murmur2(%s)", [key]).fetchone()[0] & 0x7FFFFFFF == murmur2(key) & 0x7FFFFFFF

    @pytest.mark.parametrize(
        ("key", "hashed"),
        # from Kafka's UtilsTest.testMurmur2
        [
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
        ],
    )
    def test_the_hash_is_kafkas(self, sql, key, hashed):
        assert sql.execute("SELECT odradek.murmur2(%s)", [key]).fetchone()[0] == hashed

    def test_a_keys_partition_a_given_one_and_one_for_the_transaction(self, store, sql):
        keys = [b"%d" % number for number in range(50)]
        for key in keys:
            assert append(sql, key=key) == (murmur2(key) & 0x7FFFFFFF) % 3
        assert [append(sql, key=b"0", partition=index) for index in (0, 1, 2)] == [0, 1, 2]
        with sql.transaction():
            assert len({append(sql) for _ in range(20)}) == 1
        assert {append(sql) for _ in range(100)} == {0, 1, 2}

    @pytest.mark.parametrize("partition", [-1, 3])
    def test_a_partition_that_there_is_not(self, sql, partition):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"has no partition {partition}, they are 0"):
            append(sql, partition=partition)


class TestRefusals:
    def test_no_topic(self, sql):
        with pytest.raises(psycopg.errors.UndefinedObject, match="there is no topic other"):
            append(sql, "other")
        with pytest.raises(psycopg.errors.UndefinedObject, match="there is no topic NULL"):
            append(sql, None)

    def test_no_key_in_a_compacted_topic(self, store, sql):
        with pytest.raises(psycopg.errors.NotNullViolation, match="its records need keys"):
            append(sql, "compacted")
        append(sql, "compacted", key=b"k", value=None)
        assert values(store) == [None]

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        key=st.none() | st.binary(max_size=100),
        value=st.none() | st.binary(max_size=300),
        headers=st.lists(
            st.tuples(st.text("aä\U0001f600", max_size=5), st.none() | st.binary(max_size=60)), max_size=4
        ),
    )
    def test_a_record_is_too_large_where_its_batch_would_be(self, sql, key, value, headers):
        texts = [[name, content and {"base64": b64encode(content).decode()}] for name, content in headers]
        texts = [[name, "" if content == b"" else content] for name, content in texts]
        size_bytes = len(build_batch([SimpleRecord(key, value, 5, tuple(headers))]))
        found = sql.execute("SELECT odradek.batch_bytes(%s, %s, %s)", [key, value, Jsonb(texts)]).fetchone()[0]
        assert found == size_bytes

    def test_max_message_bytes(self, store, sql):
        overhead = len(build_batch([SimpleRecord(None, b"x" * 200, 5)])) - 200
        append(sql, "small", value=b"x" * (300 - overhead))
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=r"301 bytes .* max.message.bytes=300"):
            append(sql, "small", value=b"x" * (301 - overhead))
        assert len(values(store)) == 1

    @pytest.mark.parametrize(
        "headers",
        [
            '"text"',
            "7",
            '["a"]',
            '[["one"]]',
            '[["a", "b", "c"]]',
            '[[1, "b"]]',
            '{"a": 7}',
            '{"a": true}',
            '{"a": ["b"]}',
            '{"a": {"hex": "00"}}',
            '{"a": {"base64": 7}}',
            '{"a": {"base64": "?"}}',
            '{"a": {"base64": "AA==", "more": 1}}',
        ],
    )
    def test_malformed_headers(self, store, sql, headers):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            append(sql, headers=headers)
        assert values(store) == []


class TestRecords:
    @pytest.mark.parametrize("key", ["text", b"\\x5c\xff", None])
    @pytest.mark.parametrize("value", ["täxt", b"\\x5c\xff", None, Json({"b": 1}), Jsonb({"b": 1})])
    def test_keys_and_values_of_every_type(self, store, sql, key, value):
        append(sql, key=key, value=value)
        [record] = pending(store)
        assert record.key == (key.encode() if isinstance(key, str) else key)
        if isinstance(value, Json | Jsonb):
            assert json.loads(record.value) == {"b": 1}
        else:
            assert record.value == (value.encode() if isinstance(value, str) else value)

    def test_literals_and_names_of_parameters(self, store, sql):
        sql.execute("SELECT odradek.append('t', 'k', 'v'), odradek.append('t', NULL, NULL)")
        sql.execute("SELECT odradek.append(topic => 't', key => 'a', value => 'b', partition => 2)")
        found = {(record.key, record.value) for record in pending(store)}  # of all partitions: a null key may go to any
        assert found == {(b"k", b"v"), (None, None), (b"a", b"b")}

    @pytest.mark.parametrize(
        ("given", "stored"),
        [
            (None, ()),
            ("null", ()),
            ("{}", ()),
            ('{"a": "ä", "b": null, "c": {"base64": "AP8="}}', (("a", "ä".encode()), ("b", None), ("c", b"\x00\xff"))),
            ('[["z", "1"], ["a", "2"], ["z", ""]]', (("z", b"1"), ("a", b"2"), ("z", b""))),
        ],
    )
    def test_headers(self, store, sql, given, stored):
        append(sql, headers=given)
        assert pending(store)[0].headers == stored

    def test_the_time_is_that_of_appending(self, store, sql):
        before, _, after = sql.execute(
            "SELECT extract(epoch FROM clock_timestamp()), odradek.append('t', '', ''), "
            "extract(epoch FROM clock_timestamp())"
        ).fetchone()
        assert int(before * 1000) <= pending(store)[0].timestamp_ms <= int(after * 1000)

    def test_a_user_needs_no_right_to_the_tables(self, store, sql):
        sql.execute("DROP ROLE IF EXISTS clerk")
        sql.execute("CREATE ROLE clerk LOGIN")
        try:
            with connected(store, user="clerk", autocommit=True) as clerk:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    append(clerk, value="text")
                sql.execute("GRANT USAGE ON SCHEMA odradek TO clerk")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    append(clerk, value="text")
                sql.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA odradek TO clerk")
                clerk.execute("CREATE TEMP TABLE odradek_outbox_topics AS SELECT 'evil' AS topic")
                append(clerk, value="text")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    clerk.execute("SELECT * FROM public.odradek_outbox")
            assert values(store) == [b"text"]
        finally:
            sql.execute("DROP OWNED BY clerk")
            sql.execute("DROP ROLE clerk")


class TestOrder:
    def test_what_is_rolled_back_never_shows_and_what_is_not_committed_does_not_yet(self, store, sql):
        with connected(store) as other:
            append(other, value=b"later")
            assert values(store) == []
            with sql.transaction(force_rollback=True):
                append(sql, value=b"never")
            with sql.transaction():
                append(sql, value=b"kept")
                with sql.transaction(force_rollback=True):
                    append(sql, value=b"undone")
            assert values(store) == [b"kept"]
            other.commit()
            assert values(store) == [b"kept", b"later"]

    def test_the_order_is_that_of_commits_not_of_appending(self, store):
        with connected(store) as first, connected(store) as second:
            append(first, value=b"1", partition=0)
            append(second, value=b"2", partition=0)
            append(first, value=b"3", partition=0)
            second.commit()
            assert values(store) == [b"2"]
            first.commit()
            assert values(store) == [b"2", b"1", b"3"]

    @pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
    def test_transactions_of_every_level_of_isolation(self, store, level):
        with connected(store) as first, connected(store) as second:
            for each, value in ((first, b"1"), (second, b"2")):
                each.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                append(each, value=value, partition=0)
            second.commit()
            first.commit()
        assert values(store) == [b"2", b"1"]

    def test_turns_that_are_taken_before_the_end_hold_others_up_until_it(self, store, sql):
        """`SET CONSTRAINTS … IMMEDIATE` takes the turn at once, and the next one still waits for the commit."""
        with connected(store) as early, ThreadPoolExecutor(1) as pool:
            append(early, value=b"1", partition=0)
            early.execute("SET CONSTRAINTS ALL IMMEDIATE")
            append(early, value=b"2", partition=0)
            append(early, value=b"3", partition=1)
            late = pool.submit(append, sql, value=b"4", partition=0)
            while not waits_for_a_lock(early):
                assert not late.done()
                Event().wait(0.01)
            early.commit()
            late.result(30)
        assert [(record.partition, record.value) for record in pending(store)] == [
            (0, b"1"), (0, b"2"), (1, b"3"), (0, b"4")
        ]  # fmt: skip

    def test_commits_that_meet_in_other_orders_of_partitions_do_not_wait_for_each_other_forever(self, store):
        barrier = Barrier(4)

        def work(number):
            order = (0, 1, 2) if number % 2 else (2, 1, 0)
            with connected(store) as connection:
                for _ in range(30):
                    for partition in order:
                        append(connection, value=b"%d" % number, partition=partition)
                    barrier.wait(30)
                    connection.commit()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert len(values(store)) == 4 * 30 * 3

    def test_so_many_at_a_time(self, store, sql):
        for number in range(10):
            append(sql, value=b"%d" % number, partition=0)
        assert len(pending(store, records=4)) == 4
        [first] = pending(store, size_bytes=1)
        assert first.value == b"0"
        assert 1 < len(pending(store, size_bytes=300)) < 6
        assert store.outbox().pending(10, 1000, [(T, 0)]) == []
        assert len(store.outbox().pending(10, 10_000, [(T, 1)])) == 10


def waits_for_a_lock(connection) -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    return bool(connection.execute(waiting).fetchone()[0])


class TestTaking:
    @pytest.fixture
    def log(self, store):
        """An empty log."""
        store.delete(KEY)
        opened = store.open(KEY, LogPolicy())
        yield opened
        opened.close()

    def test_a_write_takes_its_entries_with_it(self, store, sql, log):
        for number in range(3):
            append(sql, value=b"%d" % number, partition=0)
        with sql.transaction():
            append(sql, value=b"3", partition=0)
            append(sql, value=b"4", partition=0)
        entries = [record.entry for record in pending(store)]
        log.commit([LogWrite([make_batch(0)], taken=entries[:4])], sync=True)
        assert values(store) == [b"4"]
        log.commit([LogWrite([make_batch(1)], taken=entries[4:])], sync=True)
        assert values(store) == []
        assert sql.execute("SELECT count(*) FROM odradek_outbox_turns").fetchone()[0] == 0

    def test_a_write_whose_entries_are_gone_fails_as_a_whole(self, store, sql, log):
        append(sql)
        [record] = pending(store)
        log.commit([LogWrite([make_batch(0)], taken=[record.entry])], sync=True)
        with pytest.raises(StoreError, match="the others are written already"):
            log.commit([LogWrite([make_batch(1)], taken=[record.entry])], sync=True)
        log.close()
        with closing(store.open(KEY, LogPolicy())) as opened_again:
            assert opened_again.load().log_end_offset == 1

    def test_an_owner_that_was_overtaken_takes_nothing(self, store, sql, log):
        append(sql)
        [record] = pending(store)
        sql.execute("UPDATE odradek_owner SET epoch = epoch + 1")
        with pytest.raises(StoreLockedError):
            log.commit([LogWrite([make_batch(0)], taken=[record.entry])], sync=True)
        with pytest.raises(StoreLockedError):
            store.outbox().move_to_dead_letters([record], "why")
        sql.execute("UPDATE odradek_owner SET epoch = epoch - 1")
        assert len(values(store)) == 1

    def test_dead_letters_have_all_of_the_record_and_the_reason(self, store, sql):
        append(sql, key=b"k", value=b"v", headers='{"a": "b"}', partition=2)
        store.outbox().move_to_dead_letters(pending(store), "why")
        assert values(store) == []
        columns = "topic, topic_id, partition, key, value, headers, reason"
        assert sql.execute(f"SELECT {columns} FROM odradek_outbox_dead").fetchall() == [
            ("t", T, 2, b"k", b"v", {"a": "b"}, "why")
        ]
        sql.execute("SELECT odradek.append(topic, key, value, headers, partition) FROM odradek_outbox_dead")
        [again] = pending(store)
        assert (again.partition, again.key, again.value, again.headers) == (2, b"k", b"v", (("a", b"b"),))

    def test_an_entry_that_never_was(self, log):
        with pytest.raises(StoreError):
            log.commit([LogWrite([make_batch(0)], taken=[OutboxEntry(7, 7)])], sync=True)


@pytest.fixture
def many_descriptors():
    """As in a broker with connections and open logs: descriptors opened from now on are above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    with ExitStack() as opened:
        while opened.enter_context(Path(os.devnull).open()).fileno() < 1024:
            pass
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class TestListening:
    def test_each_commit_wakes_and_so_does_a_new_connection(self, store, sql):
        woken = Event()
        store.outbox().listen(woken.set)
        assert woken.wait(30)
        for _ in range(3):
            woken.clear()
            append(sql)
            assert woken.wait(30)
        woken.clear()
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert sql.execute(cut).fetchall() == [(True,)]
        assert woken.wait(30)
        woken.clear()
        append(sql)
        assert woken.wait(30)
        store.outbox().stop()
        woken.clear()
        append(sql)
        assert not woken.is_set()

    @waits_by_poll
    def test_it_listens_with_more_descriptors_than_select_takes(self, store, sql, many_descriptors):
        woken = Event()
        store.outbox().listen(woken.set)
        assert woken.wait(30)
        woken.clear()
        append(sql)
        assert woken.wait(30)
        store.outbox().stop()

    def test_stores_in_schemas_of_their_own_have_outboxes_of_their_own(self, store, sql, shared_url):
        sql.execute("CREATE SCHEMA shop")
        with closing(SqlStore(f"{shared_url}?options=-csearch_path%3Dshop")) as shop:
            shop.outbox().publish([OutboxTopic("t", C, 1, 1000, is_compacted=False)], [])
            woken, other = Event(), Event()
            shop.outbox().listen(woken.set)
            store.outbox().listen(other.set)
            assert woken.wait(30)
            assert other.wait(30)
            woken.clear()
            other.clear()
            sql.execute("SELECT shop.append('t', 'k', 'of the shop')")
            assert woken.wait(30)
            assert values(shop) == [b"of the shop"]
            assert values(store) == []
            woken.clear()
            append(sql)
            assert other.wait(30)
            assert not woken.is_set()
            store.outbox().stop()


def test_a_schema_without_an_outbox_is_upgraded(postgres):
    engine = create_engine(postgres)
    with engine.begin() as connection:
        run_migrations(connection, "0002")
    engine.dispose()
    with psycopg.connect(conninfo(postgres)) as connection:
        assert connection.execute("SELECT to_regnamespace('odradek')").fetchone() == (None,)
    with closing(SqlStore(postgres)) as store:
        store.outbox().publish(TOPICS, [])
        with connected(store) as connection:
            append(connection)
        assert values(store) == [b"v"]


def test_topics_are_replaced_and_removed(store):
    outbox = store.outbox()
    changed = OutboxTopic("t", C, 5, 7, is_compacted=True)
    outbox.publish([changed], ["small"])
    assert outbox.topics() == {"t": changed, "compacted": TOPICS[1]}


def test_sqlite_has_none(tmp_path):
    with closing(SqlStore(f"sqlite:///{tmp_path}/store.db")) as store:
        assert store.outbox() is None
