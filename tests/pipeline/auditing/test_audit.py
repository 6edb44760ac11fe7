"""Audits of whole topics of running brokers, with copies that are equal and copies that are not."""

import json
from contextlib import contextmanager
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

import odradek
from odradek.gateway.cli.main import cli
from odradek.pipeline import audit, auditing, mirror
from odradek.pipeline.auditing import compare
from odradek.pipeline.auditing.records import COLUMNS, SCHEMA, committed, in_order
from odradek.pipeline.auditing.samples import Likeness, TopKeys
from odradek.pipeline.auditing.scan import batches
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.report import Report
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import Fetched, WireClient
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker
from tests.pipeline.archive.topics import await_markers, set_at_broker


@pytest.fixture
def second():
    """A connection to another cluster."""
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
    await_markers(connection, topic)


def details(report):
    return report.as_json()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
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
    for target, more in ((connection, {}), (second, changed)):
        with Cluster(target) as cluster:
            cluster.create_topic("t", 1, {"retention.ms": "-1"})
        import_into(target, "t", batch(0), batch(1, **more), batch(2))
    report = audit(connection, "t", against=(second, "t"))
    assert not report.complete
    assert f"offset 1 differs in {columns}" in report.notes[0]


def test_records_that_are_missing_or_more_are_found(connection, second):
    for target, offsets in ((connection, (0, 1, 3)), (second, (0, 2, 3, 4))):
        with Cluster(target) as cluster:
            cluster.create_topic("t", 1, {"retention.ms": "-1"})
        import_into(target, "t", *[batch(offset) for offset in offsets])
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


def test_the_timeout_applies_to_both_clusters(monkeypatch):
    asked = []

    def noted(connection, _topic, *, against, **_others):
        asked.extend([connection.timeout_s, against[0].timeout_s])
        return Report("audit")

    monkeypatch.setattr(auditing, "audit", noted)
    done = CliRunner().invoke(cli, ["pipeline", "audit", "t", "--against", "127.0.0.1:1/t", "--timeout", "1.5"])
    assert (done.exit_code, asked) == (0, [1.5, 1.5]), done.output


def test_topics_that_do_not_exist_are_named(connection, second):
    fill(connection, records=1)
    with pytest.raises(PipelineError, match="there is no topic 'absent'"):
        audit(connection, "absent")
    with pytest.raises(PipelineError, match="there is no topic 't'"):
        audit(connection, "t", against=(second, "t"))


def test_what_retention_took_from_the_topic_alone_is_explained(connection, second):
    for target in (connection, second):
        with Cluster(target) as cluster:
            cluster.create_topic("t", 1, {"retention.ms": "-1"})
        import_into(target, "t", *[batch(offset) for offset in range(10)])
    with WireClient(connection) as client:
        client.delete_records({TopicPartition("t", 0): 4})
    report = audit(connection, "t", against=(second, "t"))
    assert report.complete, report.notes
    assert any("still has 4 offsets from before the topic's log start" in note for note in report.notes)
    lost = audit(second, "t", against=(connection, "t"))
    assert "offsets 0 to 3 are not there" in lost.notes[0]


def transactional(producer_id, offset):
    return batch(offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def marker(producer_id, offset, *, commits):
    return end_transaction_marker(
        committed=commits, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0,
        base_offset=offset,
    )  # fmt: skip


def fetched(*batches, aborted=()):
    records = memoryview(b"".join(batches))
    answer = Fetched(0, records, aborted=tuple(aborted))
    return [(header, answer) for header in iter_headers(records)]


def test_aborted_records_are_known_before_their_marker_comes():
    """The first fetch has no marker; the second one begins within a transaction."""
    first = fetched(transactional(1, 0), transactional(2, 1), transactional(1, 2), aborted=[(2, 1)])
    second = fetched(
        transactional(2, 3), transactional(1, 4), marker(2, 5, commits=False), transactional(2, 6), batch(7),
        aborted=[(2, 1)],
    )  # fmt: skip
    assert [header.base_offset for header, _ in committed([*first, *second])] == [0, 2, 4, 6, 7]


def damage(folder, value):
    """Changes one byte of a stored record."""
    changed = 0
    for path in folder.rglob("*"):
        if path.is_file() and value in (stored := path.read_bytes()):
            path.write_bytes(stored.replace(value, value[:-1] + b"~"))
            changed += 1
    assert changed == 1


def test_a_damaged_batch_is_reported_with_its_offsets_and_the_rest_is_read(connection, broker, second, tmp_path):
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 1, {"retention.ms": "-1"})
    import_into(connection, "t", batch(0), batch(1, b"to be damaged"), batch(2), *map(batch, range(3, 40)))
    mirror(connection, second, topics="t", shown=False)
    broker.stop()
    damage(tmp_path / "data", b"to be damaged")
    broker.start()
    report = audit(connection, "t", against=(second, "t"))
    assert not report.complete
    assert report.read == 39
    assert report.skipped == {"damaged": 1}
    assert "t-0: damaged batch: 1 (offsets 1 to 1: record batch checksum" in report.notes[0]
    assert "1 extra, 0 different (offset 1 is there in addition)" in report.notes[1]
    other = audit(second, "t", against=(connection, "t"))
    assert "1 missing, 0 extra, 0 different (offset 1 is missing)" in other.notes[0]
    assert f"{connection.bootstrap}/t, partition 0: damaged batch: offsets 1 to 1: " in other.notes[1]


class Damaged:
    """A fake client of a log with batches of ten records, some of which cannot be parsed."""

    def __init__(self, batches, damaged):
        self.batches, self.damaged, self.fetches = batches, damaged, 0

    def fetch(self, positions, *, max_bytes, partition_max_bytes, isolation):
        self.fetches += 1
        ((partition, position),) = positions.items()
        first = position // 10
        count = 1 if partition_max_bytes == 1 else 7
        found = [
            b"\0" * 61 if first + number in self.damaged else one
            for number, one in enumerate(self.batches[first : first + count])
        ]
        return {partition: Fetched(0, memoryview(b"".join(found)))}


@pytest.mark.parametrize("damaged", [{0}, {3, 4, 5}, {98, 99}, {0, 2, 99}, {*range(100)}])
def test_what_cannot_be_parsed_is_passed_over(damaged):
    log = [build_batch([SimpleRecord(None, b"v")] * 10, base_offset=10 * number) for number in range(100)]
    skipped, client = [], Damaged(log, damaged)
    found = batches(client, TopicPartition("t", 0), 0, 1000, lambda first, end, why: skipped.append((first, end)))
    assert [header.base_offset for header, _ in found] == [10 * n for n in range(100) if n not in damaged]
    assert sum(end - first for first, end in skipped) == 10 * len(damaged)
    assert client.fetches < 150


def test_keys_that_another_partitioner_has_placed_are_remarked_and_no_problem(connection):
    for topic, partitioner in (("kafka", "murmur2_random"), ("crc", "consistent_random")):
        with Cluster(connection) as cluster:
            cluster.create_topic(topic, 4, {"retention.ms": "-1"})
        producer = Producer({**connection.for_librdkafka(), "partitioner": partitioner})
        for number in range(200):
            producer.produce(topic, b"v", b"key %d" % number)
            producer.produce(topic, b"v", partition=0)
        producer.flush()
    as_kafka, otherwise = audit(connection, "kafka"), audit(connection, "crc")
    assert (as_kafka.complete, otherwise.complete) == (True, True)
    assert [each["misplaced"] for each in details(as_kafka)["facts"]] == [0, 0, 0, 0]
    assert not any("murmur2" in note for note in as_kafka.notes)
    assert any("of 200 records with a key are not where Kafka's own partitioner" in note for note in otherwise.notes)
    shares = details(as_kafka)["key_shares"]
    assert sum(shares.values()) == pytest.approx(1)
    assert any(f"has {max(shares.values()):.1%} of the records with a key" in note for note in as_kafka.notes)


@pytest.mark.parametrize("at_broker", [False, True])
def test_what_compaction_has_taken_since_a_copy_was_made_is_explained(connection, second, at_broker):
    """Both have the same ten records at first; compaction then removes the older records of two keys from one."""
    values = {
        0: (b"a", b"1"),
        1: (b"b", b"1"),
        2: (b"a", b"2"),
        3: (b"gone", b"1"),
        4: (b"gone", None),
        5: (b"a", b"3"),
    }
    left = {1, 5}
    for target, kept in ((connection, left), (second, set(values))):
        if at_broker:
            set_at_broker(target, "log.cleanup.policy", "compact")
        policy = {} if at_broker else {"cleanup.policy": "compact"}
        with Cluster(target) as cluster:
            cluster.create_topic("t", 1, {"min.cleanable.dirty.ratio": "1", **policy})
        import_into(target, "t", *[keyed(offset, *values[offset]) for offset in sorted(kept)])
    for first, other in ((connection, second), (second, connection)):
        report = audit(first, "t", against=(other, "t"))
        assert report.complete, report.notes
        assert any(
            "4 records are on one side alone since the other's compaction took them" in one for one in report.notes
        )


def test_what_no_later_record_explains_is_missing_also_from_a_compacted_topic(connection, second):
    for target, offsets in ((connection, (0, 2)), (second, (0, 1, 2))):
        with Cluster(target) as cluster:
            cluster.create_topic("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"})
        import_into(target, "t", *[keyed(offset, b"key %d" % offset, b"v") for offset in offsets])
    report = audit(connection, "t", against=(second, "t"))
    assert not report.complete
    assert "0 missing, 1 extra, 0 different (offset 1 is there in addition)" in report.notes[0]


def keyed(offset, key, value):
    return build_batch([SimpleRecord(key, value, timestamp_ms=1_000)], base_offset=offset)


def test_keys_beyond_the_bound_are_taken_for_explained():
    waiting = compare.Successors(is_compacted=True, most=2)
    for offset in range(4):
        waiting.lacks({"key": b"%d" % offset, "value": b"v", "offset": offset})
    assert (waiting.explained, waiting.unexplained, waiting.examples()) == (2, 2, [0, 1])


def table_of(*offsets):
    rows = [(each, 0, 0, None, b"%d" % each, None) for each in offsets]
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))).cast(SCHEMA)


def test_files_whose_offsets_interleave_are_merged():
    days = [[table_of(0, 4), table_of(5, 9)], [table_of(1, 2, 3)], [], [table_of(6), table_of(7, 8)]]
    found = [each for table in in_order([iter(day) for day in days]) for each in table.column("offset").to_pylist()]
    assert found == list(range(10))


def test_the_progress_line_has_a_total_and_comes_to_it(connection, second):
    fill(connection)
    mirror(connection, second, topics="t", shown=False)
    totals, done = [], []

    class Counting:
        def advance(self, records, size_bytes):
            done.append(records)

    @contextmanager
    def opened(total):
        totals.append(total)
        yield Counting()

    report = audit(connection, "t", against=(second, "t"), meter=opened)
    assert report.complete, report.notes
    assert totals == [2 * sum(one.to_offset - one.from_offset for one in report.partitions)]
    assert sum(done) == totals[0]


class TestCursors:
    """Two sources whose tables end at different offsets."""

    class Fixed:
        name, is_compacted = "fixed", False

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
        found = compare.compare(first, other, 0, lambda offsets, _: None)
        assert (found.same, found.missing, found.extra, found.different) == (19, 1, 0, 0)
        found = compare.compare(other, first, 0, lambda offsets, _: None)
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
