"""`odradek sql` over every kind of store while its broker is writing."""

import csv
import io
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of
from gateway_transactions import Transactional

from odradek.gateway.beside.catalog import Catalog
from odradek.gateway.cli.main import cli
from odradek.gateway.sql import tables
from odradek.gateway.sql.sqlite import SqliteSession
from odradek.storage_backends.opener import open_beside

FLIGHTS = [(b'{"carrier": "UA", "delay": %d}' % number, 1_000 * number) for number in range(20)]


@pytest.fixture(scope="module", params=["lmdb", "sqlite"])
def url(request, tmp_path_factory):
    """The URL of a store that a broker has filled and is still using."""
    folder = tmp_path_factory.mktemp("sql")
    url = f"{request.param}://{folder}/{'store.db' if request.param == 'sqlite' else 'data'}"
    with ProcessBroker(folder, storage=url) as broker, RawClient(broker.address) as client:
        client.create_topic("flights", 3)
        for value, time_ms in FLIGHTS:
            partition = time_ms // 1_000 % 3
            batch = batch_of(value, timestamp_ms=time_ms, key=b"k%d" % partition)
            assert client.produce("flights", batch, partition).error_code == 0
        client.create_topic("my-topic", 1)
        client.create_topic("unused", 1)
        _transactions(client)
        yield url


def _transactions(client):
    ended, aborted, left_open = (Transactional(client, name) for name in ("ended", "aborted", "open"))
    for producer, value in ((ended, b"committed"), (aborted, b"aborted"), (left_open, b"open")):
        producer.add("my-topic", 0)
        assert producer.write("my-topic", value) == 0
    assert aborted.end(committed=False) == 0
    assert ended.end(committed=True) == 0


@pytest.fixture
def sql(url):
    """Runs a statement; returns the rows as JSON."""

    def run(statement, *options, code=0):
        result = CliRunner().invoke(cli, ["sql", statement, "--storage", url, *options], prog_name="odradek")
        assert result.exit_code == code, result.output
        return result

    return run


def rows(result):
    return [tuple(row.values()) for row in json.loads(result.stdout)]


def test_every_record_is_a_row(sql):
    found = rows(sql("SELECT * FROM flights ORDER BY timestamp", "--json"))
    expected = [
        (number % 3, number // 3, 1_000 * number, f"k{number % 3}", value.decode(), None)
        for number, (value, _) in enumerate(FLIGHTS)
    ]
    assert found == expected


def test_values_are_text_and_json(sql):
    statement = (
        "SELECT as_json(value) ->> 'carrier' AS carrier, sum(as_json(value) ->> 'delay') AS total, "
        "max(as_time(timestamp)) AS last FROM flights GROUP BY 1"
    )
    assert rows(sql(statement, "--json")) == [("UA", 190, "1970-01-01 00:00:19.000")]
    odd = "SELECT as_text(x'ff'), as_json(x'ff'), as_json('{'), as_json('NaN'), as_json('[1]'), as_time(null)"
    assert list(json.loads(sql(odd, "--json").stdout)[0].values()) == [None, None, None, None, "[1]", None]


def test_undecided_and_aborted_records_are_not_shown(sql):
    assert rows(sql('SELECT as_text(value) FROM "my-topic"', "--json")) == [("committed",)]


def test_a_topic_without_records_is_an_empty_table(sql):
    assert sql("SELECT * FROM unused", "--json").stdout == "[]\n"
    assert sql("SELECT key, value FROM unused").stdout == "key  value\n"


def test_what_is_printed(sql):
    statement = "SELECT partition, offset, value, x'ff00' AS bytes, NULL AS absent FROM flights WHERE timestamp = 4000"
    assert sql(statement).stdout.splitlines() == [
        "partition  offset  value                          bytes   absent",
        '        1       1  {"carrier": "UA", "delay": 4}  \\xff00       -',
    ]
    document = {"partition": 1, "offset": 1, "value": FLIGHTS[4][0].decode(), "bytes_base64": "/wA=", "absent": None}
    assert json.loads(sql(statement, "--json").stdout) == [document]
    lines = list(csv.reader(io.StringIO(sql(statement, "--csv").stdout)))
    assert lines == [
        ["partition", "offset", "value", "bytes", "absent"],
        ["1", "1", FLIGHTS[4][0].decode(), "\\xff00", ""],
    ]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM missing", "no such table: missing; the topics here are flights, my-topic, unused"),
        ("SELEC", 'near "SELEC": syntax error'),
        ("SELECT 1; SELECT 2", "run them one by one"),
        ("INSERT INTO flights (value) VALUES ('x')", "may not be modified"),
        ("SELECT as_text(1, 2)", "wrong number of arguments"),
    ],
)
def test_a_statement_that_cannot_run(sql, statement, message):
    result = sql(statement, code=1)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("condition", "partitions", "at_most"),
    [
        ("TRUE", {0, 1, 2}, 20),
        ("partition = 1", {1}, 7),
        ("partition > 0 AND offset >= 2 AND offset < 4", {1, 2}, 4),
        ("partition = 2 AND offset = 3.5", set(), 0),
        ("timestamp BETWEEN 3000 AND 5000", {0, 1, 2}, 3),
        ("partition = 0 AND offset > 1e30", set(), 0),
        ("timestamp > 1e30", set(), 0),
        ("partition = NULL", set(), 0),
    ],
)
def test_conditions_decide_what_is_read(url, monkeypatch, condition, partitions, at_most):
    """The rows are those that SQLite finds without pushed-down conditions."""
    read = []

    def noted(logs, key, wanted):
        for record in committed_records(logs, key, wanted):
            read.append(key.index)
            yield record

    committed_records = tables.committed_records
    monkeypatch.setattr(tables, "committed_records", noted)
    with SqliteSession(open_beside(url)) as session:
        found = list(session.run(f"SELECT partition, offset FROM flights WHERE {condition} ORDER BY 1, 2").rows)
        narrow = list(read)
        hidden = condition.replace("partition", "+partition").replace("offset", "+offset").replace("time", "+time")
        assert found == list(session.run(f"SELECT partition, offset FROM flights WHERE {hidden} ORDER BY 1, 2").rows)
    assert set(narrow) <= partitions
    assert len(narrow) <= at_most


def test_rows_are_read_as_they_are_wanted(url):
    """One batch is decoded at a time, so that a topic may be larger than memory."""
    with SqliteSession(open_beside(url)) as session:
        first = next(iter(session.run("SELECT partition, offset FROM flights ORDER BY partition, offset").rows))
        assert tuple(first) == (0, 0)


def test_topics_that_differ_in_capitals_alone(url):
    topics = Catalog(open_beside(url)).topics()
    both = {"Flights": topics["my-topic"], "flights": topics["flights"]}
    assert list(tables.tables_for("SELECT * FROM flights", both)) == ["flights"]
    assert list(tables.tables_for("SELECT * FROM Flights", both)) == ["Flights"]


def test_a_store_that_is_not_there(tmp_path):
    for options, message in (
        (("--storage", f"sqlite://{tmp_path}/none.db"), "there is no database"),
        (("--data", str(tmp_path)), "is not a data directory of Odradek"),
        (("--storage", "memory://"), "memory store is the broker's own"),
    ):
        result = CliRunner().invoke(cli, ["sql", "SELECT 1", *options], prog_name="odradek")
        assert (result.exit_code, message in result.stderr) == (1, True), result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["apsw", "sqlalchemy"])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_the_missing_extra_is_named(url, missing):
    script = f"import sys; sys.modules[{missing!r}] = None; from odradek.gateway.cli.main import main; main()"
    command = [sys.executable, "-c", script, "sql", "SELECT 1", "--storage", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(f"needs {missing}: pip install 'odradek[sql]'\n")
    assert len(done.stderr.splitlines()) == 1
