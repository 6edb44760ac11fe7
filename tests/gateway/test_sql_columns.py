"""Topics with `odradek.sql.columns`: the rows always equal what a reader of the batches would get."""

import json

import pytest
from click.testing import CliRunner
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of
from gateway_transactions import Transactional
from sqlalchemy import create_engine, text

from odradek.gateway.cli.main import cli
from odradek.gateway.sql.sqlite import SqliteSession
from odradek.storage_backends.opener import open_beside
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

KEPT = {"retention.ms": "-1"}  # the batches of these tests are old
COLUMNS = {"odradek.sql.columns": "true", **KEPT}
SELECT = 'SELECT "partition", "offset", "timestamp", "key", "value" FROM {} ORDER BY 1, 2'


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/store.db"
    return request.getfixturevalue("postgres")


@pytest.fixture
def broker(url, tmp_path):
    with ProcessBroker(tmp_path / "data", "--set", "log.cleaner.backoff.ms=50", storage=url) as broker:
        yield broker
        assert "Traceback" not in broker.log()


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as client:
        yield client


class Rows:
    """The rows of a topic's view, and the records of its batches."""

    def __init__(self, url):
        self.url = url
        is_sqlite = url.startswith("sqlite")
        self.engine = create_engine(url.replace("sqlite:///", "sqlite:////") if is_sqlite else url)
        self.schema = "" if is_sqlite else "topics."

    def of(self, topic):
        return [tuple(row) for row in self.query(SELECT.format(f'{self.schema}"{topic}"'))]

    def in_batches(self, topic):
        with SqliteSession(open_beside(self.url)) as session:
            return [tuple(row) for row in session.run(SELECT.format(f'"{topic}"')).rows]

    def query(self, statement):
        with self.engine.connect() as connection:
            if self.schema:
                connection.execute(text("SET enable_seqscan = off"))  # otherwise it ignores indexes in small tables
            return connection.execute(text(statement)).all()


@pytest.fixture
def rows(url):
    rows = Rows(url)
    yield rows
    rows.engine.dispose()


def odradek(url, *arguments, code=0):
    result = CliRunner().invoke(cli, ["sql", *arguments, "--storage", url], prog_name="odradek")
    assert result.exit_code == code, result.output
    return result


def alter(client, topic, name, value):
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=(config,))
    assert client.call(IncrementalAlterConfigsRequest(resources=(resource,))).responses[0].error_code == 0


def delete_records(client, topic, offset):
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(part,)),), timeout_ms=10_000)
    assert client.call(request).topics[0].partitions[0].error_code == 0


def values(found):
    return [value if value is None else bytes(value) for *_, value in found]


def test_records_are_rows_as_soon_as_they_are_acknowledged(client, rows):
    client.create_topic("my-topic", 2, **COLUMNS)
    batch = batch_of(b"one", b"two", key=b"k", timestamp_ms=5)
    assert client.produce("my-topic", batch, 1).error_code == 0
    assert [(*row[:3], bytes(row[3]), bytes(row[4])) for row in rows.of("my-topic")] == [
        (1, 0, 5, b"k", b"one"),
        (1, 1, 5, b"k", b"two"),
    ]


def test_transactions_count_when_they_are_committed(client, rows):
    client.create_topic("t", **COLUMNS)
    ended, aborted, left_open = (Transactional(client, name) for name in ("ended", "aborted", "open"))
    for producer, value in ((ended, b"committed"), (aborted, b"aborted"), (left_open, b"open")):
        producer.add("t", 0)
        assert producer.write("t", value) == 0
    assert client.produce("t", batch_of(b"of none")).error_code == 0
    assert values(rows.of("t")) == [b"of none"]
    assert aborted.end(committed=False) == 0
    assert ended.end(committed=True) == 0
    assert values(rows.of("t")) == [b"committed", b"of none"]
    aborted.add("t", 0)
    assert aborted.write("t", b"second try") == 0
    assert values(rows.of("t")) == [b"committed", b"of none"]
    assert aborted.end(committed=True) == 0
    assert values(rows.of("t")) == [b"committed", b"of none", b"second try"]


def test_deleted_records_and_topics_are_not_shown_and_their_rows_go(client, rows):
    client.create_topic("t", **COLUMNS, **{"segment.bytes": "1048576"})
    for number in range(4):
        assert client.produce("t", batch_of(bytes([number]) * 900_000)).error_code == 0
    delete_records(client, "t", 3)
    assert [row[1] for row in rows.of("t")] == [3]
    _wait(rows, "SELECT count(*) FROM odradek_records WHERE record_offset < 3", 0)
    client.call(DeleteTopicsRequest(topic_names=("t",), timeout_ms=10_000), 5)
    _wait(rows, "SELECT count(*) FROM odradek_records", 0)
    assert rows.of("t") == []
    client.create_topic("t", **COLUMNS)
    assert client.produce("t", batch_of(b"new")).error_code == 0
    assert values(rows.of("t")) == [b"new"]


def test_compaction_leaves_the_rows_that_it_leaves_of_the_batches(client, rows):
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.bytes": "1048576"}
    client.create_topic("t", **COLUMNS, **settings)
    aborted = Transactional(client, "aborted")
    aborted.add("t", 0)
    batch = batch_of(
        b"in doubt", key=b"x", producer_id=aborted.pid, producer_epoch=0, base_sequence=0, transactional=True
    )
    assert client.produce("t", batch).error_code in (0, 53)
    assert aborted.end(committed=False) == 0
    for number in range(6):
        for key in (b"a", b"b"):
            value = b"%d" % number + b"x" * 300_000
            assert client.produce("t", batch_of(value, key=key, timestamp_ms=number)).error_code == 0
    for _ in range(600):
        if len(rows.of("t")) < 12 and rows.of("t") == rows.in_batches("t"):
            break
    else:
        pytest.fail(f"not compacted: {[row[:3] for row in rows.of('t')]}")
    of_drafts = "SELECT count(*) FROM odradek_records r JOIN odradek_logs l ON l.id = r.log_id WHERE l.kind <> 0"
    _wait(rows, of_drafts, 0)


def test_older_records_are_filled_in_on_request(client, rows, url):
    client.create_topic("t", 2, **KEPT)
    ended, aborted, left_open = (Transactional(client, name) for name in ("ended", "aborted", "open"))
    for producer in (ended, aborted, left_open):
        producer.add("t", 0)
        assert producer.write("t", producer.name.encode()) == 0
    for number in range(30):
        assert client.produce("t", batch_of(b"%d" % number * 50_000), number % 2).error_code == 0
    assert aborted.end(committed=False) == 0
    assert ended.end(committed=True) == 0
    refused = odradek(url, "--backfill", "t", code=1)
    assert "set odradek.sql.columns=true first" in refused.stderr
    alter(client, "t", "odradek.sql.columns", "true")
    assert client.produce("t", batch_of(b"new")).error_code == 0
    assert values(rows.of("t")) == [b"new"]
    assert odradek(url, "--backfill", "t").stdout == "Filled in 32 records.\n"
    assert left_open.end(committed=True) == 0
    assert rows.of("t") == rows.in_batches("t")
    assert len(rows.of("t")) == 33
    assert odradek(url, "--backfill", "t").stdout == "Filled in 0 records.\n"


def test_a_topic_that_is_filled_in_before_it_is_written_to_again(client, rows, url):
    client.create_topic("t", **KEPT)
    assert client.produce("t", batch_of(b"old")).error_code == 0
    alter(client, "t", "odradek.sql.columns", "true")
    odradek(url, "--backfill", "t")
    assert client.produce("t", batch_of(b"new")).error_code == 0
    assert values(rows.of("t")) == [b"old", b"new"]


def test_records_that_came_while_the_setting_was_off_are_missing_until_filled_in(client, rows, url):
    client.create_topic("t", **COLUMNS)
    for setting, value in (("true", b"one"), ("false", b"two"), ("true", b"three")):
        alter(client, "t", "odradek.sql.columns", setting)
        assert client.produce("t", batch_of(value)).error_code == 0
    assert values(rows.of("t")) == [b"three"]
    odradek(url, "--backfill", "t")
    assert values(rows.of("t")) == [b"one", b"two", b"three"]


def test_rows_are_there_after_kill_9(broker, rows):
    with RawClient(broker.address) as client:
        client.create_topic("t", **COLUMNS)
        for number in range(20):
            assert client.produce("t", batch_of(b"%d" % number)).error_code == 0
    broker.kill()
    broker.start()
    assert rows.of("t") == rows.in_batches("t")
    with RawClient(broker.address) as client:
        assert client.produce("t", batch_of(b"after")).error_code == 0
    assert values(rows.of("t")) == [*(b"%d" % number for number in range(20)), b"after"]


def test_a_key_and_a_time_are_found_by_an_index(client, rows, url):
    client.create_topic("t", **COLUMNS)
    assert client.produce("t", batch_of(b"short", key=b"k", timestamp_ms=7)).error_code == 0
    assert client.produce("t", batch_of(b"long", key=b"k" * 100_000)).error_code == 0
    view = f'{rows.schema}"t"'
    key = "X'6b'" if not rows.schema else r"'\x6b'"
    assert [bytes(row[0]) for row in rows.query(f'SELECT "value" FROM {view} WHERE "key" = {key}')] == [b"short"]
    assert len(rows.of("t")) == 2
    explain = "EXPLAIN QUERY PLAN " if not rows.schema else "EXPLAIN "
    for condition, index in ((f'"key" = {key}', "odradek_records_keys"), ('"timestamp" = 7', "odradek_records_times")):
        plan = str(rows.query(f'{explain}SELECT "value" FROM {view} WHERE {condition}'))
        assert index in plan, plan


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
class TestStatementsInPostgres:
    def test_the_same_statements_run(self, client, url):
        client.create_topic("flights", **COLUMNS)
        batch = batch_of(b'{"carrier": "UA", "delay": 3}', b"\xff", b"{", timestamp_ms=1_000)
        assert client.produce("flights", batch).error_code == 0
        statement = (
            "SELECT as_json(value) ->> 'carrier' AS carrier, as_text(value) IS NULL AS odd, as_time(timestamp)::text "
            'FROM flights ORDER BY "offset"'
        )
        found = [tuple(row.values()) for row in json.loads(odradek(url, statement, "--json").stdout)]
        time = "1970-01-01 00:00:01"
        assert found == [("UA", False, time), (None, True, time), (None, False, time)]
        total = odradek(url, "SELECT sum(timestamp) AS total, 10 % 3 AS rest FROM flights", "--json").stdout
        assert json.loads(total) == [{"total": 3_000, "rest": 1}]

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("SELECT * FROM plain", 'relation "plain" does not exist; a topic is a table in PostgreSQL once'),
            ("DELETE FROM odradek_logs", "read-only transaction"),
            ("SELEC", "syntax error"),
        ],
    )
    def test_a_statement_that_cannot_run(self, client, url, statement, message):
        client.create_topic("plain")
        assert message in odradek(url, statement, code=1).stderr

    def test_a_store_in_a_schema_of_its_own_has_its_views_beside_it(self, url, tmp_path):
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("CREATE SCHEMA other"))
        engine.dispose()
        url += "?options=-csearch_path%3Dother"
        name = "long" * 40
        with ProcessBroker(tmp_path / "data", storage=url) as broker, RawClient(broker.address) as client:
            client.create_topic(name, **COLUMNS)
            assert client.produce(name, batch_of(b"v")).error_code == 0
        listed = odradek(url, "SELECT viewname FROM pg_views WHERE schemaname = 'other_topics'", "--csv").stdout
        [view] = listed.splitlines()[1:]
        assert view.startswith("long" * 13)
        assert odradek(url, f"SELECT as_text(value) FROM {view}", "--csv").stdout.splitlines()[1:] == ["v"]


def _wait(rows, query, wanted):
    for _ in range(2000):
        if (found := rows.query(query)[0][0]) == wanted:
            return
    pytest.fail(f"{query}: {found}")
