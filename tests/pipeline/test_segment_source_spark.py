"""`format("odradek")` in Spark, compared with `format("kafka")` on the same broker."""

import datetime
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import odradek
from odradek.pipeline import SegmentSource

OFFSETS = '{"mixed":{"0":17,"1":-2}}', '{"mixed":{"0":-1,"1":41}}'
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

# py4j leaves sockets to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("segments") / "data"


@pytest.fixture(scope="module")
def bootstrap(data):
    with odradek.broker(data) as running:
        fill(running.bootstrap)
        yield running.bootstrap


@pytest.fixture
def session(spark):
    spark.dataSource.register(SegmentSource)
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.set(PUSHDOWN, before)


def create(bootstrap, topic, partitions=1, **config):
    settings = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in config.items()}}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()


def fill(bootstrap):
    """Records of every codec, with and without keys, values and headers, in several segments; some are aborted."""
    create(bootstrap, "mixed", 2, segment_bytes="1048576")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        write(bootstrap, "mixed", 60, {"compression.type": codec})
    aborting = Producer({"bootstrap.servers": bootstrap, "transactional.id": "aborts"})
    aborting.init_transactions()
    aborting.begin_transaction()
    aborting.produce("mixed", b"never", partition=0)
    aborting.flush()
    aborting.abort_transaction()
    create(bootstrap, "stamped", message_timestamp_type="LogAppendTime")
    write(bootstrap, "stamped", 30, {})
    create(bootstrap, "unused")


def write(bootstrap, topic, count, settings, first=0):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000, **settings})
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=None if number % 5 == 0 else b"k%d" % number,
            value=None if number % 7 == 0 else Random(number).randbytes(number % 60 * 500),
            headers=[("n", b"%d" % number), ("n", None)][: number % 3],
            partition=number % 2 if topic == "mixed" else 0,
            timestamp=1_700_000_000_000 + number,
        )
    producer.flush()


def from_segments(session, data, **options):
    return session.read.format("odradek").options(path=str(data), **options).load()


def over_the_wire(session, bootstrap, **options):
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": "read_committed", **options}
    return session.read.format("kafka").options(**options).load()


def rows(frame):
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


class TestABatchRead:
    @pytest.mark.parametrize(
        "options",
        [
            {"subscribePattern": ".*", "includeHeaders": "true"},
            {"assign": '{"mixed":[1]}', "minPartitions": "3", "kafka.isolation.level": "read_uncommitted"},
            {"subscribe": "mixed", "startingOffsets": OFFSETS[0], "endingOffsets": OFFSETS[1]},
            {"subscribe": "mixed", "startingTimestamp": "1700000000031"},
            {"subscribe": "unused"},
        ],
        ids=["all", "uncommitted", "offsets", "time", "empty"],
    )
    def test_has_the_columns_and_rows_of_the_kafka_source(self, session, bootstrap, data, options):
        ours, theirs = from_segments(session, data, **options), over_the_wire(session, bootstrap, **options)
        assert ours.schema == theirs.schema
        found = rows(ours)
        assert found == rows(theirs)
        assert bool(found) is (options.get("subscribe") != "unused")

    def test_of_a_source_that_knows_its_path(self, session, bootstrap, data):
        session.dataSource.register(SegmentSource.of(data))
        assert session.read.format("odradek").option("subscribe", "stamped").load().count() == 30

    def test_needs_no_setting_of_spark(self, session, bootstrap, data):
        session.conf.set(PUSHDOWN, "false")
        ours = from_segments(session, data, subscribe="mixed").where("offset = 3")
        assert rows(ours) == rows(over_the_wire(session, bootstrap, subscribe="mixed").where("offset = 3"))

    def test_of_a_missing_topic_says_so(self, session, bootstrap, data):
        with pytest.raises(Exception, match=r"there is no topic 'missing' in .*data"):
            from_segments(session, data, subscribe="missing").count()


class TestConditions:
    def test_on_offsets_partitions_and_times_are_not_left_to_spark(self, session, bootstrap, data, capsys):
        since = datetime.datetime.fromtimestamp(1_700_000_000.030, datetime.UTC)
        condition = "partition = 1 and offset between 3 and 140 and topic = 'mixed'"
        condition += f" and timestamp >= timestamp'{since}'"
        ours = from_segments(session, data, subscribe="mixed,stamped").where(condition)
        ours.explain()
        assert "Filter" not in capsys.readouterr().out.replace("RuntimeFilters", "")
        found = rows(ours)
        assert found == rows(over_the_wire(session, bootstrap, subscribe="mixed,stamped").where(condition))
        assert found
        assert ours.rdd.getNumPartitions() == 1, "one task, for one partition"

    def test_on_keys_are_spark_s(self, session, bootstrap, data, capsys):
        ours = from_segments(session, data, subscribe="mixed").where("key = X'6B31' and offset < 50")
        ours.explain()
        left = next(line for line in capsys.readouterr().out.splitlines() if "Filter (" in line)
        assert "key" in left
        assert "offset" not in left
        assert {bytes(row.key) for row in ours.collect()} == {b"k1"}


class TestAStream:
    def run(self, session, data, tmp_path, **options):
        stream = session.readStream.format("odradek").options(
            path=str(data), subscribe="streamed", startingOffsets="earliest", **options
        )
        query = (
            stream.load()
            .selectExpr("offset", "CAST(value AS STRING) value")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query, sorted(row.offset for row in session.read.parquet(str(tmp_path / "table")).collect())

    def test_reads_what_there_is_and_goes_on_from_there(self, session, bootstrap, data, tmp_path):
        create(bootstrap, "streamed")
        write(bootstrap, "streamed", 40, {})
        _, found = self.run(session, data, tmp_path)
        assert found == list(range(40))
        write(bootstrap, "streamed", 25, {}, first=40)
        _, found = self.run(session, data, tmp_path)
        assert found == list(range(65))
        query, found = self.run(session, data, tmp_path)
        assert found == list(range(65)), "nothing twice"
        assert query.exception() is None
