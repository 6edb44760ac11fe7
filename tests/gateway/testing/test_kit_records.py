"""`records`, `produce` and their asynchronous forms, against what clients write and read."""

import asyncio  # noqa: TID251 - users have loops of their own

import pytest
import trio
from confluent_kafka import Consumer, Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafkas_murmur2

import odradek
from odradek.gateway.testing.kit.errors import KitError, UnknownTopicError
from odradek.gateway.testing.kit.partitioner import murmur2
from odradek.gateway.testing.kit.values import Record, TopicPartition

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def kafka():
    with odradek.broker(config={"auto.create.topics.enable": True}) as running:
        yield running


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_as_a_producer_wrote_them(kafka, codec):
    topic = f"codec-{codec}"
    kafka.create_topics({topic: 2})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 50})
    for number in range(50):
        producer.produce(
            topic, b"%d" % number * 20, b"key", partition=number % 2, headers=[("h", b"\x00"), ("h", None)],
            timestamp=1_700_000_000_000 + number,
        )  # fmt: skip
    producer.flush(30)
    expected = [
        Record(
            topic, number % 2, number // 2, 1_700_000_000_000 + number, b"key", b"%d" % number * 20,
            (("h", b"\x00"), ("h", None)),
        )
        for number in [*range(0, 50, 2), *range(1, 50, 2)]
    ]  # fmt: skip
    assert kafka.records(topic) == expected
    assert kafka.records(topic, partition=1) == expected[25:]
    assert kafka.records(topic, partition=1, from_offset=20) == expected[45:]
    assert kafka.records(topic, from_offset=25) == []


def test_a_consumer_reads_what_produce_has_returned(kafka):
    kafka.create_topics({"produced": 3})
    made = kafka.produce_all(
        "produced",
        ["text", None, {"value": b"\xff", "key": "a", "headers": {"x": "y", "none": None}, "timestamp_ms": 5}],
    )
    made += [kafka.produce("produced", "last", key=b"k", partition=2)]
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["produced"])
    read = [message for _ in made if (message := consumer.poll(30)) is not None]
    consumer.close()
    assert {(each.partition(), each.offset(), each.key(), each.value(), each.timestamp()[1]) for each in read} == {
        (each.partition, each.offset, each.key, each.value, each.timestamp_ms) for each in made
    }
    assert sorted(kafka.records("produced"), key=str) == sorted(made, key=str)


def test_keys_are_placed_as_kafkas_producers_do_and_records_without_a_key_in_turn(kafka):
    kafka.create_topics({"placed": 7})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for number in range(100):
        producer.produce("placed", b"theirs", b"key-%d" % number)
    producer.flush(30)
    ours = kafka.produce_all("placed", [{"value": "ours", "key": f"key-{number}"} for number in range(100)])
    theirs = {each.key: each.partition for each in kafka.records("placed") if each.value == b"theirs"}
    assert {each.key: each.partition for each in ours} == theirs
    assert [kafka.produce("placed", "x").partition for _ in range(8)] == [0, 1, 2, 3, 4, 5, 6, 0]


@given(st.binary(max_size=40))
@settings(max_examples=300)
def test_murmur2_is_kafkas(data):
    assert murmur2(data) == kafkas_murmur2(data) & 0xFFFFFFFF


def test_many_records_are_written_in_batches_and_returned_in_their_order(kafka):
    kafka.create_topics({"many": {"partitions": 2, "configs": {"max.message.bytes": 300_000}}})
    values = [b"%06d" % number + bytes(2000) for number in range(1500)]
    made = kafka.produce_all("many", values)
    assert [each.value for each in made] == values
    assert kafka.records("many") == sorted(made, key=lambda each: (each.partition, each.offset))


def test_transactions_are_shown_when_they_are_committed(kafka):
    kafka.create_topics({"transfers": 1})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions()
    for value, ends in ((b"kept", producer.commit_transaction), (b"given-up", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("transfers", value)
        producer.flush(30)
        ends()
    producer.begin_transaction()
    producer.produce("transfers", b"open")
    producer.flush(30)
    assert [each.value for each in kafka.records("transfers")] == [b"kept"]
    everything = kafka.records("transfers", isolation="read_uncommitted")
    assert [(each.offset, each.value) for each in everything] == [(0, b"kept"), (2, b"given-up"), (4, b"open")]
    with pytest.raises(AssertionError, match="1 offsets are of open transactions, which are not committed"):
        kafka.assert_produced("transfers", value="open", within=0.01)
    producer.commit_transaction()
    assert kafka.assert_produced("transfers", value="open").offset == 4
    with pytest.raises(ValueError, match="isolation is one of 'read_uncommitted', 'read_committed'"):
        kafka.records("transfers", isolation="committed")


def test_what_was_deleted_and_log_append_times_are_as_a_consumer_sees_them(kafka):
    kafka.create_topics({"timed": {"configs": {"message.timestamp.type": "LogAppendTime"}}})
    made = kafka.produce("timed", "x", timestamp_ms=5)
    assert made.timestamp_ms > 1_700_000_000_000
    assert kafka.records("timed") == [made]


def test_an_unknown_topic_is_named_with_similar_ones(kafka):
    kafka.create_topics({"payments": 1})
    with pytest.raises(UnknownTopicError, match=r"there is no topic 'payment'; did you mean 'payments'\?"):
        kafka.records("payment")
    with pytest.raises(LookupError, match="topic 'payments' has no partition 1, only 0 to 0"):
        kafka.records("payments", partition=1)
    with odradek.broker(config={"auto.create.topics.enable": False}) as other:
        with pytest.raises(UnknownTopicError, match="there is no topic 'payments': the broker has no topics"):
            other.produce("payments", "x")
        other.create_topics({f"topic-{number:02}": 1 for number in range(25)})
        with pytest.raises(UnknownTopicError, match=r"the broker has 'topic-00', .*'topic-19' and 5 more$"):
            other.records("zzzzz")


def test_topics_are_created_as_the_broker_is_configured(kafka):
    assert kafka.produce("created-here", "x").offset == 0


def test_what_the_broker_refuses_raises_its_reason(kafka):
    kafka.create_topics({"small": {"configs": {"max.message.bytes": 100, "cleanup.policy": "compact"}}})
    with pytest.raises(KitError, match=r"small-0 refuses 1 record.*MESSAGE_TOO_LARGE") as raised:
        kafka.produce("small", "x" * 1000, key="k")
    assert raised.value.code == "MESSAGE_TOO_LARGE"
    with pytest.raises(KitError, match="INVALID_RECORD"):
        kafka.produce("small", "x")
    with pytest.raises(LookupError, match="has no partition 4"):
        kafka.produce("small", "x", partition=4)
    with pytest.raises(TypeError, match="bytes, text or None, and 5 is a int"):
        kafka.produce("small", 5)
    with pytest.raises(TypeError, match="a new record has no content; it has headers, key"):
        kafka.produce_all("small", [{"content": "x"}])
    with pytest.raises(KitError, match=r"cannot create topic small: .*already exists"):
        kafka.create_topics({"small": 1})
    with pytest.raises(TypeError, match="topic 'other': no option replicas"):
        kafka.create_topics({"other": {"replicas": 1}})
    assert kafka.records("small") == []


def test_values_are_immutable_and_partitions_are_equal_to_tuples(kafka):
    record = kafka.produce("created-by-produce", "x")
    with pytest.raises(AttributeError):
        record.offset = 5
    assert TopicPartition("t", 1) == ("t", 1)
    assert str(TopicPartition("t", 1)) == "t-1"


@pytest.mark.parametrize("run", [asyncio.run, lambda main: trio.run(lambda: main)], ids=["asyncio", "trio"])
def test_the_same_calls_of_asynchronous_tests(run):
    async def main():
        async with odradek.broker() as kafka:
            await kafka.aio.create_topics({"orders": 1})
            made = await kafka.aio.produce("orders", "paid", key="1")
            assert await kafka.aio.records("orders") == [made]
            assert await kafka.aio.assert_produced("orders", value="paid") == made
            assert await kafka.aio.assert_produced("orders", value="paid", count=1) == [made]
            await kafka.aio.assert_not_produced("orders", value="refunded")
            assert await kafka.aio.committed("nobody") == {}

    run(main())


def test_a_cancelled_assertion_ends_at_once_and_the_loop_goes_on_meanwhile():
    async def main():
        async with odradek.broker(topics={"orders": 1}) as kafka:
            with trio.move_on_after(0.05) as scope:
                await kafka.aio.assert_produced("orders", value="never", within=1000)
            assert scope.cancelled_caught

    trio.run(main)
