"""The plan of a read of a running broker's data directory: topics, partitions, offsets, transactions."""

import json
import pickle
import sys
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import odradek
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments import options
from odradek.pipeline.segments.filters import Conditions, condition_of
from odradek.pipeline.segments.offsets import Planner
from odradek.pipeline.segments.options import OptionError
from odradek.pipeline.segments.reading import DataLossError, Reading, read_range
from odradek.pipeline.segments.source import SegmentSource, SegmentStreamReader

pyspark_filters = pytest.importorskip("pyspark.sql.datasource")


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def client(data):
    with odradek.broker(data) as running:
        yield Client(running.bootstrap)


class Client:
    def __init__(self, bootstrap):
        self.settings = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.settings)

    def create(self, topic, partitions=2):
        for each in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            each.result()

    def write(self, topic, count, *, partition=0, first_ms=1_000):
        producer = Producer(self.settings)
        for number in range(count):
            producer.produce(topic, b"v%d" % number, partition=partition, timestamp=first_ms + number)
            if number % 10 == 9:
                producer.flush()
        producer.flush()

    def transactional(self):
        producer = Producer({**self.settings, "transactional.id": "writer"})
        producer.init_transactions()
        return producer


def planner(data, *, streaming=False, **given):
    return Planner(options.parse({"path": str(data), **given}, streaming=streaming))


def planned(data, **given):
    return {(each.topic, each.partition): (each.start, each.end) for each in planner(data, **given).ranges()}


def values(data, **given):
    wanted = options.parse({"path": str(data), **given}, streaming=False)
    ranges = Planner(wanted).ranges()
    how = Reading(committed=wanted.committed)
    return [value for each in ranges for batch in read_range(each, how) for value in batch.column("value").to_pylist()]


class TestSubscription:
    def test_to_topics_means_all_their_partitions(self, client, data):
        client.create("a", 3)
        client.create("b")
        client.write("a", 4, partition=2)
        client.write("b", 5)
        assert planned(data, subscribe="a, b") == {("a", 2): (0, 4), ("b", 0): (0, 5)}
        found = planner(data, subscribe="a,b").extents()
        assert {each: (extent.start, extent.end) for each, extent in found.items()} == {
            ("a", 0): (0, 0),
            ("a", 1): (0, 0),
            ("a", 2): (0, 4),
            ("b", 0): (0, 5),
            ("b", 1): (0, 0),
        }

    def test_by_pattern_or_partition(self, client, data):
        for name in ("orders", "order-lines", "other"):
            client.create(name)
            client.write(name, 2, partition=1)
        assert planned(data, subscribePattern="order.*").keys() == {("order-lines", 1), ("orders", 1)}
        assert planned(data, subscribePattern="__.*|other").keys() == {("other", 1)}
        assert planned(data, assign='{"orders": [1]}') == {("orders", 1): (0, 2)}

    def test_knows_what_happened_to_topics(self, client, data):
        client.create("a")
        plan = planner(data, subscribe="a")
        assert len(plan.extents()) == 2
        client.admin.create_partitions([NewPartitions("a", 5)])["a"].result()
        assert len(plan.extents()) == 5
        client.admin.delete_topics(["a"])["a"].result()
        with pytest.raises(PipelineError, match="there is no topic 'a'"):
            plan.extents()
        client.create("a", 1)
        assert list(plan.extents()) == [("a", 0)]

    def test_to_what_is_not_there_is_refused(self, client, data):
        client.create("a")
        with pytest.raises(PipelineError, match="no topic 'missing'"):
            planned(data, subscribe="missing")
        with pytest.raises(PipelineError, match="no partition 2"):
            planned(data, assign='{"a": [2]}')

    def test_of_a_copy_without_metadata_goes_by_the_directories(self, client, data, tmp_path):
        client.create("a")
        client.write("a", 3)
        copy = tmp_path / "copy"
        copy.mkdir()
        (copy / "format").write_bytes((data / "format").read_bytes())
        for each in data.glob("a-0.*"):
            (copy / each.name).symlink_to(each)
        assert planned(copy, subscribe="a") == {("a", 0): (0, 3)}


class TestBounds:
    @pytest.fixture(autouse=True)
    def topic(self, client):
        client.create("a", 2)
        client.write("a", 30, first_ms=5_000)

    def test_are_offsets(self, data):
        start, end = json.dumps({"a": {"0": 7, "1": -2}}), json.dumps({"a": {"0": 20, "1": -1}})
        assert planned(data, subscribe="a", startingOffsets=start, endingOffsets=end) == {("a", 0): (7, 20)}

    def test_are_times(self, data):
        found = planned(data, subscribe="a", startingTimestamp="5012", startingOffsetsByTimestampStrategy="latest")
        assert found == {("a", 0): (12, 30)}
        found = planned(data, assign='{"a":[0]}', endingOffsetsByTimestamp=json.dumps({"a": {"0": 5021}}))
        assert found == {("a", 0): (0, 21)}
        with pytest.raises(PipelineError, match="a-1 has no record of 5012 ms or later"):
            planned(data, subscribe="a", startingTimestamp="5012")

    def test_must_name_all_partitions(self, data):
        with pytest.raises(OptionError, match=r"for all partitions.*: a-1"):
            planned(data, subscribe="a", startingOffsets='{"a":{"0":7}}')

    def test_are_divided_between_tasks(self, data):
        found = planner(data, subscribe="a", minPartitions="4").ranges()
        assert [(each.start, each.end) for each in found] == [(0, 7), (7, 15), (15, 22), (22, 30)]

    def test_without_the_active_segment(self, client, data):
        assert planned(data, subscribe="a", includeActive="false") == {}


class TestTransactions:
    def test_end_where_one_is_open(self, client, data):
        client.create("a", 1)
        client.write("a", 3)
        producer = client.transactional()
        producer.begin_transaction()
        producer.produce("a", b"open")
        producer.flush()
        client.write("a", 2)
        assert planned(data, subscribe="a") == {("a", 0): (0, 3)}
        assert planned(data, subscribe="a", isolation="read_uncommitted") == {("a", 0): (0, 6)}
        producer.abort_transaction()
        producer.begin_transaction()
        producer.produce("a", b"committed")
        producer.commit_transaction()
        while len(values(data, subscribe="a")) < 6:
            time.sleep(0.01)  # markers are written after the commit is answered
        assert values(data, subscribe="a") == [b"v0", b"v1", b"v2", b"v0", b"v1", b"committed"]
        seen = values(data, subscribe="a", **{"kafka.isolation.level": "read_uncommitted"})
        assert seen == [b"v0", b"v1", b"v2", b"open", b"v0", b"v1", b"committed"]


class TestAStream:
    def reader(self, data, **given):
        return SegmentStreamReader(options.parse({"path": str(data), "subscribe": "a", **given}, streaming=True))

    def ranges(self, reader, start, end):
        return [(each.range.partition, each.range.start, each.range.end) for each in reader.partitions(start, end)]

    def test_goes_from_offset_to_offset(self, client, data):
        client.create("a", 2)
        client.write("a", 5)
        reader = self.reader(data)
        assert reader.initialOffset() == {"a": {"0": 5, "1": 0}}, "from the end, as the Kafka source does"
        start = self.reader(data, startingOffsets="earliest").initialOffset()
        assert start == {"a": {"0": 0, "1": 0}}
        assert reader.partitions(start, start) == []
        client.write("a", 3, partition=1)
        end = reader.latestOffset()
        assert end == {"a": {"0": 5, "1": 3}}
        assert self.ranges(reader, start, end) == [(0, 0, 5), (1, 0, 3)]
        assert self.ranges(reader, {"a": {"0": 4, "1": 3}}, end) == [(0, 4, 5)]
        (partition,) = reader.partitions({"a": {"0": 4, "1": 3}}, end)
        (batch,) = pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(partition)))
        assert batch.column("value").to_pylist() == [b"v4"]

    def test_reads_new_partitions_from_their_start(self, client, data):
        client.create("a", 1)
        reader = self.reader(data)
        start = reader.initialOffset()
        client.admin.create_partitions([NewPartitions("a", 2)])["a"].result()
        client.write("a", 4, partition=1)
        assert self.ranges(reader, start, reader.latestOffset()) == [(1, 0, 4)]

    def test_tells_of_partitions_that_are_gone_or_made_anew(self, client, data):
        client.create("a", 1)
        client.write("a", 4)
        lenient = self.reader(data, failOnDataLoss="false")
        with pytest.raises(DataLossError, match="a-0 went back from offset 9 to 4"):
            self.reader(data).partitions({"a": {"0": 9}}, {"a": {"0": 4}})
        assert self.ranges(lenient, {"a": {"0": 9}}, {"a": {"0": 4}}) == []
        with pytest.raises(DataLossError, match="a-1 is gone"):
            self.reader(data).partitions({"a": {"0": 0, "1": 3}}, {"a": {"0": 4, "1": 5}})
        assert self.ranges(lenient, {"a": {"0": 0, "1": 3}}, {"a": {"0": 4, "1": 5}}) == [(0, 0, 4)]


class TestConditions:
    def conditions(self, *filters):
        return Conditions(tuple(map(condition_of, filters)))

    def test_prune_partitions_and_offsets(self, client, data):
        f = pyspark_filters
        client.create("a", 3)
        for partition in range(3):
            client.write("a", 30, partition=partition)
        found = planner(data, subscribe="a").ranges(
            self.conditions(
                f.In(("partition",), (1, 2)),
                f.Not(f.EqualTo(("partition",), 2)),
                f.GreaterThan(("offset",), 5),
                f.LessThanOrEqual(("offset",), 9),
                f.IsNotNull(("offset",)),
            )
        )
        assert [(each.partition, each.start, each.end) for each in found] == [(1, 6, 10)]

    def test_that_nothing_satisfies_plan_nothing(self, client, data):
        f = pyspark_filters
        client.create("a", 1)
        client.write("a", 30)
        contradiction = self.conditions(f.EqualTo(("offset",), 3), f.EqualTo(("offset",), 4))
        assert planner(data, subscribe="a").ranges(contradiction) == []

    def test_are_taken_only_where_spark_pushes_them(self, data, monkeypatch):
        worker = "pyspark.sql.worker.data_source_pushdown_filters"
        source = SegmentSource({"path": str(data), "subscribe": "a"})
        monkeypatch.delitem(sys.modules, worker, raising=False)
        # what Spark checks before it refuses a reader
        assert type(source.reader(None)).pushFilters is pyspark_filters.DataSourceReader.pushFilters
        monkeypatch.setitem(sys.modules, worker, sys)
        on_key = pyspark_filters.EqualTo(("key",), b"a")
        assert list(source.reader(None).pushFilters([pyspark_filters.EqualTo(("offset",), 3), on_key])) == [on_key]

    def test_on_other_columns_are_left_to_spark(self):
        f = pyspark_filters
        left = [f.EqualTo(("key",), b"a"), f.Not(f.IsNotNull(("offset",))), f.EqualTo(("offset",), 1.5)]
        left += [f.IsNull(("topic",)), f.StringStartsWith(("topic",), "a"), f.Not(f.LessThan(("offset",), 3))]
        assert [condition_of(each) for each in left] == [None] * len(left)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of the options assign, subscribe, subscribePattern"),
        ({"subscribe": "a", "assign": "{}"}, "only one"),
        ({"subscribe": "a", "isolaton": "x"}, "no option isolaton"),
        ({"subscribe": "a", "isolation": "snapshot"}, "isolation is read_committed or read_uncommitted"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "cannot be 'latest'"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "cannot be 'earliest'"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'}, "cannot have -1"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "startingOffsets is not JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a":[1]}'}, "JSON like"),
        ({"subscribe": "a", "includeHeaders": "yes"}, "includeHeaders is true or false"),
        ({"subscribe": "a", "minPartitions": "0"}, "above 0"),
        ({"subscribe": "a", "path": "s3://bucket/data"}, "a directory of this machine"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "9"}, "no read limits"),
        ({"subscribe": "a", "path": ""}, "the option path is missing"),
    ],
)
def test_options_that_make_no_sense_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        options.parse({"path": "/data", **given}, streaming=False)


def test_options_of_the_wire_are_allowed():
    given = {"path": "file:///data%20a", "SUBSCRIBE": "a", "kafka.bootstrap.servers": "h:1", "groupidprefix": "x"}
    found = options.parse(given, streaming=False)
    assert (str(found.path), found.subscription.topics) == ("/data a", ("a",))
