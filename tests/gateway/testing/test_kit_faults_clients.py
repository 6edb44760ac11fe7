"""Scripted faults as kafka-python, librdkafka and aiokafka notice them. Each test would fail without its fault."""

import asyncio  # noqa: TID251 - aiokafka's loop
from itertools import count

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError, GroupCoordinatorNotAvailableError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from gateway_client import RawClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError, NotLeaderForPartitionError
from kafka.structs import TopicPartition as Partition

import odradek

WITHIN_S = 30
_names = count()


@pytest.fixture(scope="module")
def broker():
    with odradek.broker() as running:
        yield running


@pytest.fixture
def faults(broker):
    yield broker.faults
    try:
        broker.faults.check()
    finally:
        broker.faults.clear()


@pytest.fixture
def topic(broker):
    name = f"clients-{next(_names)}"
    broker.create_topic(name)
    return name


def stored(broker, topic):
    with RawClient((broker.host, broker.port)) as client:
        return client.values(topic)


# kafka-python


@pytest.fixture
def kafka_python(broker):
    made = []

    def producer(**options):
        made.append(KafkaProducer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=20, **options))
        return made[-1]

    yield producer
    for each in made:
        each.close()


def test_kafka_python_reports_an_error_that_it_may_not_retry(broker, faults, topic, kafka_python):
    faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER", topic=topic, must_happen=True)
    producer = kafka_python(retries=0, enable_idempotence=False)
    with pytest.raises(NotLeaderForPartitionError):
        producer.send(topic, b"x").get(WITHIN_S)
    assert stored(broker, topic) == []
    producer.send(topic, b"y").get(WITHIN_S)
    assert stored(broker, topic) == [b"y"]


def test_kafka_python_without_retries_loses_what_a_closed_connection_takes(broker, faults, topic, kafka_python):
    faults.next("Produce", close=True, topic=topic, must_happen=True)
    with pytest.raises(KafkaConnectionError):
        kafka_python(retries=0, enable_idempotence=False).send(topic, b"x").get(WITHIN_S)
    assert stored(broker, topic) == []


def test_kafka_python_sends_again_what_gets_no_reply(broker, faults, topic, kafka_python):
    dropped = faults.next("Produce", drop=True, topic=topic, must_happen=True)
    producer = kafka_python(retries=5, request_timeout_ms=500, delivery_timeout_ms=20_000)
    producer.send(topic, b"x").get(WITHIN_S)
    assert dropped.count == 1
    assert stored(broker, topic) == [b"x"]


def test_kafka_python_reads_the_other_partition_meanwhile(broker, faults, kafka_python):
    name = f"clients-{next(_names)}"
    broker.create_topic(name, partitions=2)
    for partition in (0, 1):
        kafka_python().send(name, b"%d" % partition, partition=partition).get(WITHIN_S)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=20)
    consumer.assign([Partition(name, 0), Partition(name, 1)])
    with faults.always("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic=name, partition=0, must_happen=True) as fault:
        assert next(consumer).value == b"1"
        while fault.count < 3:
            assert not consumer.poll(50)
    assert next(consumer).value == b"0"
    consumer.close()


# librdkafka


def librdkafka(broker, **options):
    return Producer({"bootstrap.servers": broker.bootstrap, **options})


@pytest.mark.parametrize(("is_idempotent", "copies"), [(True, 1), (False, 2)])
def test_librdkafka_duplicates_after_a_lost_reply_unless_it_is_idempotent(broker, faults, topic, is_idempotent, copies):
    faults.next("Produce", close=True, when="after", topic=topic, must_happen=True)
    producer = librdkafka(broker, **{"enable.idempotence": is_idempotent})
    producer.produce(topic, b"x")
    assert producer.flush(WITHIN_S) == 0
    assert stored(broker, topic) == [b"x"] * copies


def test_librdkafka_retries_a_storage_error(broker, faults, topic):
    fault = faults.next("Produce", error="KAFKA_STORAGE_ERROR", times=3, topic=topic, must_happen=True)
    told = []
    producer = librdkafka(broker, **{"retry.backoff.ms": 10})
    producer.produce(topic, b"x", on_delivery=lambda error, message: told.append((error, message.offset())))
    assert producer.flush(WITHIN_S) == 0
    assert (fault.count, told) == (3, [(None, 0)])


def test_librdkafka_reports_a_topic_that_is_refused(broker, faults):
    faults.next("CreateTopics", error="POLICY_VIOLATION", topic="refused", must_happen=True)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    created = admin.create_topics([NewTopic("refused", 1), NewTopic("made", 1)])
    assert created["made"].result(WITHIN_S) is None
    with pytest.raises(KafkaException) as raised:
        created["refused"].result(WITHIN_S)
    assert raised.value.args[0].code() == KafkaError.POLICY_VIOLATION
    assert raised.value.args[0].str() == "POLICY_VIOLATION (scripted fault)"


@pytest.mark.parametrize("api", ["OffsetCommit", "OffsetFetch"])
def test_librdkafka_reports_errors_of_offsets(broker, faults, topic, api):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([_position(topic)])
    faults.always(api, error="GROUP_AUTHORIZATION_FAILED", must_happen=True)
    calls = {
        "OffsetCommit": lambda: consumer.commit(offsets=[_position(topic)], asynchronous=False),
        "OffsetFetch": lambda: consumer.committed([_position(topic)], timeout=WITHIN_S),
    }
    with pytest.raises(KafkaException) as raised:
        calls[api]()
    assert raised.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


def _position(topic):
    from confluent_kafka import TopicPartition as Position

    return Position(topic, 0, 0)


def test_librdkafka_waits_for_its_coordinator(broker, faults, topic):
    fault = faults.next("InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS", times=2, must_happen=True)
    librdkafka(broker, **{"transactional.id": topic, "retry.backoff.ms": 10}).init_transactions(WITHIN_S)
    assert fault.count == 2


# aiokafka


def test_aiokafka_connects_again(broker, faults, topic):
    async def main():
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
        await producer.start()
        closed = faults.next("Produce", close=True, when="after", topic=topic, must_happen=True)
        await producer.send_and_wait(topic, b"x", partition=0)
        await producer.stop()
        return closed.count

    assert asyncio.run(main()) == 1
    assert stored(broker, topic) == [b"x"]


def test_aiokafka_reports_a_commit_that_fails(broker, faults, topic):
    async def main():
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=topic, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        faults.next("OffsetCommit", error="ILLEGAL_GENERATION", topic=topic, must_happen=True)
        try:
            with pytest.raises((CommitFailedError, GroupCoordinatorNotAvailableError)):
                await consumer.commit({TopicPartition(topic, 0): 0})
            await consumer.commit({TopicPartition(topic, 0): 0})
        finally:
            await consumer.stop()

    asyncio.run(main())


def test_advancing_the_clock_ends_a_delay(broker, faults, topic, kafka_python):
    fault = faults.next("Produce", delay=3600, topic=topic, must_happen=True)
    sent = kafka_python(request_timeout_ms=60_000).send(topic, b"x")
    fault.wait()
    assert not sent.is_done
    broker.advance(hours=1)
    assert sent.get(WITHIN_S).offset == 0
