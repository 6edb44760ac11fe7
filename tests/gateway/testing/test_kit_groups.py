"""`committed`, `lag` and `assert_caught_up`, of groups of both protocols."""

import threading

import pytest
from confluent_kafka import Consumer, TopicPartition

import odradek
from odradek.gateway.testing.kit.errors import UnknownGroupError


@pytest.fixture(scope="module")
def kafka():
    with odradek.broker() as running:
        yield running


def consumer(kafka, group, protocol):
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_and_lag_of_a_group(kafka, protocol):
    topic = group = f"orders-{protocol}"
    kafka.create_topics({topic: 2})
    kafka.produce_all(topic, [{"value": str(number), "partition": number % 2} for number in range(10)])
    member = consumer(kafka, group, protocol)
    member.subscribe([topic])
    read = [member.poll(30) for _ in range(10)]
    assert all(read)
    assert kafka.committed(group) == {}
    assert kafka.lag(group) == {(topic, 0): 5, (topic, 1): 5}  # assigned, from the first record
    member.commit(offsets=[TopicPartition(topic, 0, 3, metadata="half")], asynchronous=False)
    assert kafka.committed(group) == {(topic, 0): 3}
    assert kafka.committed(group)[topic, 0].metadata == "half\0"  # the client sends the end of a text of C, too
    assert kafka.lag(group) == {(topic, 0): 2, (topic, 1): 5}
    with pytest.raises(AssertionError, match=rf"'{group}' is behind after 0\.\d s: {topic}-0 by 2, {topic}-1 by 5"):
        kafka.assert_caught_up(group, within=0.01)
    waiting = threading.Thread(target=lambda: kafka.assert_caught_up(group, within=60), daemon=True)
    waiting.start()
    member.commit(asynchronous=False)
    waiting.join(60)
    assert not waiting.is_alive()
    kafka.assert_caught_up(group)
    member.close()
    assert kafka.lag(group) == {(topic, 0): 0, (topic, 1): 0}
    assert kafka.committed(group) == {(topic, 0): 5, (topic, 1): 5}


def test_an_unknown_group_has_no_offsets_and_no_lag(kafka):
    assert kafka.committed("nobody") == {}
    with pytest.raises(UnknownGroupError, match="no group 'nobody': it has no member, and no committed offset"):
        kafka.lag("nobody")
    with pytest.raises(AssertionError, match=r"there is no group 'nobody' after 0\.\d s"):
        kafka.assert_caught_up("nobody", within=0.01)


def test_looking_at_groups_creates_nothing():
    with odradek.broker() as fresh:
        assert fresh.committed("g") == {}
        with pytest.raises(LookupError):
            fresh.lag("g")
        with pytest.raises(LookupError):
            fresh.records("__consumer_offsets")


def test_it_waits_for_the_first_group_of_a_broker():
    with odradek.broker(topics={"orders": 1}) as fresh:
        fresh.produce("orders", "x")
        waiting = threading.Thread(target=lambda: fresh.assert_caught_up("g", within=60), daemon=True)
        waiting.start()
        member = consumer(fresh, "g", "classic")
        member.subscribe(["orders"])
        assert member.poll(30)
        member.commit(asynchronous=False)
        waiting.join(60)
        assert not waiting.is_alive()
        member.close()


def test_a_deleted_topic_has_no_lag(kafka):
    from kafka.admin import KafkaAdminClient

    kafka.create_topics({"gone": 1, "kept": 1})
    member = consumer(kafka, "mixed", "classic")
    member.commit(offsets=[TopicPartition("gone", 0, 0), TopicPartition("kept", 0, 0)], asynchronous=False)
    member.close()
    kafka.produce("kept", "x")
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.delete_topics(["gone"])
    admin.close()
    assert kafka.lag("mixed") == {("kept", 0): 1}
