"""`snapshot` and `reset`: everything that a broker knows goes back, and clients find it where it was."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import odradek
from odradek.gateway.testing.kit.errors import UnknownTopicError
from odradek.gateway.testing.kit.snapshots import StoreKeeper


@pytest.fixture
def kafka():
    with odradek.broker(topics={"orders": 2}) as running:
        yield running


def commit(kafka, group, offset):
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def retention(kafka):
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    return admin.describe_configs([resource])[resource].result(30)["retention.ms"].value


def set_retention(kafka, value):
    entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_topics_records_offsets_and_configs_go_back_to_the_snapshot(kafka):
    first = kafka.produce("orders", "first")
    commit(kafka, "billing", 1)
    set_retention(kafka, "1000000")
    snapshot = kafka.snapshot()
    for _ in range(2):
        kafka.produce("orders", "second", partition=0)
        kafka.create_topics({"more": 1})
        commit(kafka, "billing", 2)
        commit(kafka, "shipping", 2)
        set_retention(kafka, "2000000")
        kafka.reset(snapshot)
        assert kafka.records("orders") == [first]
        assert kafka.committed("billing") == {("orders", 0): 1}
        assert kafka.committed("shipping") == {}
        assert retention(kafka) == "1000000"
        with pytest.raises(UnknownTopicError):
            kafka.records("more")


def test_without_a_snapshot_it_is_as_at_the_start(kafka):
    port, began_ms = kafka.port, kafka.now_ms
    kafka.produce("orders", "x")
    commit(kafka, "billing", 1)
    kafka.create_topics({"more": 1})
    kafka.advance(days=7)
    kafka.faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER")
    kafka.disk.fill()
    kafka.reset()
    assert kafka.port == port
    assert kafka.records("orders") == []
    assert kafka.committed("billing") == {}
    assert kafka.now_ms < began_ms + 600_000
    assert [kafka.produce("orders", "x").partition for _ in range(2)] == [0, 1]
    with pytest.raises(UnknownTopicError):
        kafka.records("more")


def test_an_open_transaction_is_open_again_and_a_later_one_is_gone(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"open", partition=0)
    producer.flush(30)
    snapshot = kafka.snapshot()
    producer.commit_transaction()
    assert [each.value for each in kafka.records("orders")] == [b"open"]
    kafka.reset(snapshot)
    assert kafka.records("orders") == []
    assert [each.value for each in kafka.records("orders", isolation="read_uncommitted")] == [b"open"]
    other = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    other.init_transactions()  # ends the open one
    kafka.produce("orders", "after", partition=0)
    assert [each.value for each in kafka.records("orders")] == [b"after"]
    kafka.reset()
    third = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    third.init_transactions()
    assert kafka.records("orders", isolation="read_uncommitted") == []


def test_a_snapshot_of_one_broker_starts_others(kafka):
    made = kafka.produce("orders", "seed")
    snapshot = kafka.snapshot()
    with odradek.broker() as other:
        other.reset(snapshot)
        assert other.records("orders") == [made]
        other.produce("orders", "only there")
    assert kafka.records("orders") == [made]
    kafka.reset(snapshot)
    assert kafka.records("orders") == [made]


def test_clients_that_stay_connect_again(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    producer.produce("orders", b"before", partition=0)
    assert consumer.poll(60).value() == b"before"
    kafka.reset()
    producer.produce("orders", b"after", partition=0)
    assert producer.flush(60) == 0
    assert [(each.offset, each.value) for each in kafka.records("orders")] == [(0, b"after")]
    consumer.close()


def test_a_stopped_broker_is_started_and_one_without_a_start_refuses(kafka):
    kafka.produce("orders", "x")
    kafka.stop()
    with pytest.raises(RuntimeError, match="does not run"):
        kafka.snapshot()
    kafka.reset()
    assert kafka.records("orders") == []
    with pytest.raises(RuntimeError, match="does not run"):
        odradek.broker().reset()


def test_data_in_a_directory_have_no_snapshots(tmp_path):
    with odradek.broker(tmp_path / "data") as durable:
        for call in (durable.snapshot, durable.reset):
            with pytest.raises(RuntimeError, match=r"there are no snapshots of .*data: only of memory://"):
                call()


def test_a_snapshot_does_not_change_with_the_broker():
    keeper = StoreKeeper()
    store = keeper.open()
    store.set_properties({"a": "1"})
    snapshot = keeper.snapshot(5)
    store.set_properties({"a": "2"})
    assert (snapshot.medium.properties, snapshot.ahead_ms) == ({"a": "1"}, 5)
