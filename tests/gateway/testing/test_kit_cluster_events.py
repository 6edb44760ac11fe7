"""Events that a test lets happen in a cluster of processes: real elections, cut links, fenced producers."""

import pytest
from confluent_kafka import KafkaException, Producer

import odradek

WITHIN_S = 60


@pytest.fixture(scope="module")
def cluster():
    with odradek.cluster(brokers=3) as running:
        running.create_topic("orders", partitions=1, replication_factor=3)
        yield running


def test_a_leader_moves_where_the_test_wants_it(cluster):
    leader = cluster.leader("orders", 0)
    others = [each for each in cluster.ids if each != leader]
    assert cluster.move_leader("orders") in others
    assert cluster.move_leader("orders", to=leader) == leader
    assert cluster.leader("orders", 0) == leader
    assert cluster.move_leader("orders", to=leader) == leader
    with pytest.raises(LookupError, match=r"broker 9 has no replica of orders-0; these have: \d, \d, \d"):
        cluster.move_leader("orders", to=9)
    with pytest.raises(LookupError, match="there is no partition none-0"):
        cluster.move_leader("none")


def test_a_producer_finds_the_leader_that_moved(cluster):
    told = []
    cluster.create_topic("moved", partitions=1, replication_factor=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in (b"before", b"after"):
        producer.produce("moved", value, on_delivery=lambda error, message: told.append((error, message.offset())))
        assert producer.flush(WITHIN_S) == 0
        cluster.move_leader("moved")
    assert told == [(None, 0), (None, 1)]


def test_a_broker_that_is_cut_off_leads_no_more(cluster):
    leader = cluster.leader("orders", 0)
    cluster.cut(leader)
    assert cluster.leader("orders", 0, not_broker=leader) != leader
    cluster.heal()
    cluster.await_in_sync()


def test_a_producer_of_a_cluster_is_fenced(cluster):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "tx"})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.flush(WITHIN_S)
    cluster.fence_producer("tx")
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(WITHIN_S)
    assert raised.value.args[0].name().endswith("FENCED")
