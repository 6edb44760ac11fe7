"""Whole topics of running brokers, with copies of them that are the same, and that are not."""

import json
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

import odradek
from odradek.gateway.cli.main import cli
from odradek.pipeline import audit, mirror
from odradek.pipeline.auditing import compare
from odradek.pipeline.auditing.records import COLUMNS, SCHEMA, _Ending
from odradek.pipeline.auditing.samples import Likeness, TopKeys
from odradek.pipeline.cluster import Cluster, TopicPartition
from odradek.pipeline.connection import Connection
from odradek.pipeline.segments.rows import Section
from odradek.pipeline.wire_client import WireClient
from odradek.wire.records.batch import parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker
from odradek.wire.records.reader import records_section


@pytest.fixture
def second():
    """Another cluster."""
    with odradek.broker() as running:
        yield Connection(running.bootstrap)


def fill(connection, topic="t", partitions=2, records=200, codec="none"):
    """Committed and aborted transactions, and records outside of them."""
    with Cluster(connection) as cluster:
        cluster.create_topic(topic, partitions, {"retention.ms": "-1"})
    plain = Producer({**connection.for_librdkafka(), "compression.codec": codec, "partitioner": "murmur2_random"})
    for number in range(records):
        plain.produce(topic, b"value %d" % number, b"key %d" % (number % 7), timestamp=1_000 + number)
    plain.flush()
    transactional = Producer({**connection.for_librdkafka(), "transactional.id": "audited"})
    transactional.init_transactions()
    for outcome in ("commit", "abort", "commit"):
        transactional.begin_transaction()
        for number in range(10):
            transactional.produce(topic, b"%d" % number, headers=[("of", outcome.encode()), ("none", None)])
        transactional.flush()
        getattr(transactional, f"{outcome}_transaction")()


def details(report):
    return report.as_json()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_whole_topic_is_explained(connection, codec, tmp_path):
    fill(connection, codec=codec)
    report = audit(connection, "t", html=tmp_path / "page.html")
    assert report.complete, report.notes
    assert report.read == 230
    assert report.written == 220
    assert report.skipped["transaction marker"] >= 3
    assert details(report)["codecs"][codec]["batches"] > 0
    assert sum(each["aborted"] for each in details(report)["facts"]) == 10


def test_a_mirrored_topic_and_the_data_directory_are_identical(connection, broker, second, tmp_path):
    fill(connection)
    mirror(connection, second, topics="t")
    report = audit(connection, "t", data=str(tmp_path / "data"), against=(second, "t"))
    assert report.complete, report.notes
    assert len([note for note in report.notes if "identical, 220 records compared" in note]) == 2


def import_into(connection, topic, *batches):
    with WireClient(connection) as client:
        answer = client.import_batches({TopicPartition(topic, 0): b"".join(batches)})
    assert [each.error for each in answer.values()] == [0]


def batch(offset, value=b"v", headers=(), time_ms=1_000, **more):
    return build_batch([SimpleRecord(b"k", value, timestamp_ms=time_ms, headers=headers)], base_offset=offset, **more)


@pytest.mark.parametrize(
    ("changed", "columns"),
    [
        ({"value": b"w"}, "value"),
        ({"headers": (("h", b"1"),)}, "headers"),
        ({"time_ms": 1_001}, "timestamp"),
    ],
)
def test_one_byte_of_a_copy_is_found(connection, second, changed, columns):
    for place, more in ((connection, {}), (second, changed)):
        with Cluster(place) as cluster:
            cluster.create_topic("t", 1, {"retention.ms": "-1"})
        import_into(place, "t", batch(0), batch(1, **more), batch(2))
    report = audit(connection, "t", against=(second, "t"))
    assert not report.complete
    assert f"offset 1 differs in {columns}" in report.notes[0]


def test_records_that_are_missing_or_more_are_found(connection, second):
    for place, offsets in ((connection, (0, 1, 3)), (second, (0, 2, 3, 4))):
        with Cluster(place) as cluster:
            cluster.create_topic("t", 1, {"retention.ms": "-1"})
        import_into(place, "t", *[batch(offset) for offset in offsets])
    report = audit(connection, "t", against=(second, "t"))
    (found,) = details(report)["compared"][f"{second.bootstrap}/t"]
    assert (found["same"], found["missing"], found["extra"], found["different"]) == (2, 1, 1, 0)
    assert found["only_other"] == [(4, 5)]
    assert "offsets missing" in report.notes[0]  # a gap in a log that is not compacted


def test_a_sequence_that_is_used_twice_is_found(connection):
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 1, {"retention.ms": "-1"})
    again = {"producer_id": 900, "producer_epoch": 0, "base_sequence": 0}
    import_into(connection, "t", batch(0, **again), batch(1, **again))
    report = audit(connection, "t")
    assert not report.complete
    assert "duplicated sequence: 1 (offset 1: producer 900 epoch 0 sequence 0" in report.notes[0]


def test_what_is_alike_or_late_is_remarked_and_no_problem(connection):
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 1, {"retention.ms": "-1"})
    import_into(connection, "t", batch(0), batch(1), batch(2, time_ms=500))
    report = audit(connection, "t")
    assert report.complete
    assert any("1 records have the key, value and time of an earlier one" in note for note in report.notes)
    assert any("1 records are older than one before them" in note for note in report.notes)


def test_the_page_opens_offline(connection, tmp_path):
    fill(connection)
    audit(connection, "t", html=tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()

    class Links(HTMLParser):
        pictures, links = 0, []

        def handle_starttag(self, tag, attrs):
            self.pictures += tag == "svg"
            self.links += [value for name, value in attrs if name in {"src", "href"}]

    seen = Links()
    seen.feed(text)
    assert (seen.pictures, seen.links) == (4, [])
    assert "http" not in text.replace(connection.bootstrap, "")


def test_the_command_tells_by_its_exit_code(connection, second):
    fill(connection)
    with Cluster(second) as cluster:
        cluster.create_topic("t", 2)
    command = ["pipeline", "audit", "t", "-b", connection.bootstrap, "--json"]
    clean = CliRunner().invoke(cli, command)
    assert clean.exit_code == 0, clean.output
    assert json.loads(clean.stdout)["clean"] is True
    other = CliRunner().invoke(cli, [*command, "--against", f"{second.bootstrap}/t"])
    assert other.exit_code == 1
    assert json.loads(other.stdout)["compared"]


def test_what_retention_took_from_the_topic_alone_is_explained(connection, second):
    for place in (connection, second):
        with Cluster(place) as cluster:
            cluster.create_topic("t", 1, {"retention.ms": "-1"})
        import_into(place, "t", *[batch(offset) for offset in range(10)])
    with WireClient(connection) as client:
        client.delete_records({TopicPartition("t", 0): 4})
    report = audit(connection, "t", against=(second, "t"))
    assert report.complete, report.notes
    assert any("still has 4 offsets from before the topic's log start" in note for note in report.notes)
    lost = audit(second, "t", against=(connection, "t"))
    assert "offsets 0 to 3 are not there" in lost.notes[0]


def transactional(producer_id, value):
    more = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    raw = memoryview(batch(0, value, **more))
    header = parse_header(raw)
    return Section(header, bytes(records_section(raw, header)))


def marker(producer_id, *, committed):
    raw = end_transaction_marker(
        committed=committed, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )
    return parse_header(raw), memoryview(raw)


def test_batches_leave_in_order_when_their_transactions_have_ended():
    ending = _Ending()
    sections = [transactional(producer_id, b"%d" % producer_id) for producer_id in (1, 2, 1, 3)]
    for section in sections:
        ending.see(section)
    ending.see_marker(*marker(2, committed=False))
    assert ending.take(1) == []  # the first one is open yet
    ending.see_marker(*marker(1, committed=True))
    assert ending.take(1) == [sections[0], sections[2]]
    assert ending.rest() == [sections[3]]
    ending.see_marker(*marker(3, committed=False))
    assert ending.take(1) == []
    assert ending.rest() == []


class TestCursors:
    """Two sources whose tables end at different places."""

    class Fixed:
        name = "fixed"

        def __init__(self, rows, size):
            self.rows, self.size = rows, size

        def partitions(self):
            return {0: (0, 1 + max(self.rows, default=-1))}

        def tables(self, partition, start, end):
            rows = [(each, each * 10, 0, None, b"%d" % each, None) for each in self.rows if start <= each < end]
            for at in range(0, len(rows), self.size):
                columns = [list(column) for column in zip(*rows[at : at + self.size], strict=True)]
                yield pa.table(dict(zip(COLUMNS, columns, strict=True))).cast(SCHEMA)

    @pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (4, 4), (2, 7)])
    def test_they_are_compared_all_the_same(self, sizes):
        first, other = self.Fixed(range(20), sizes[0]), self.Fixed([n for n in range(20) if n != 7], sizes[1])
        found = compare.compare(first, other, 0)
        assert (found.same, found.missing, found.extra, found.different) == (19, 1, 0, 0)
        found = compare.compare(other, first, 0)
        assert (found.same, found.missing, found.extra, found.different) == (19, 0, 1, 0)


def test_top_keys_and_likeness_within_their_bounds():
    keys, likeness = TopKeys(most=10), Likeness(most=100)
    for number in range(1_000):
        keys.add(b"often" if number % 2 else b"%d" % number)
        likeness.add(None, b"%d" % (number // 2), 0)
    assert keys.top()[0][0] == b"often"
    assert not keys.is_exact
    assert not likeness.is_exact
    assert 200 < likeness.alike < 900
