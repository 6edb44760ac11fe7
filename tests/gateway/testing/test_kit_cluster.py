"""The methods that a cluster shares with a broker: the leaders and the coordinator are on different brokers."""

import threading

import pytest
from confluent_kafka import Consumer

import odradek
from odradek.gateway.testing.kit.errors import KitError, UnknownTopicError

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster():
    with odradek.cluster(3) as running:
        yield running


def test_records_offsets_and_lag_of_a_cluster(cluster):
    cluster.create_topics({"orders": 6})
    made = cluster.produce_all("orders", [{"value": str(number), "key": str(number)} for number in range(60)])
    assert {each.partition for each in made} == set(range(6))
    assert cluster.records("orders") == sorted(made, key=lambda each: (each.partition, each.offset))
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    assert all(consumer.poll(60) for _ in made)
    consumer.commit(asynchronous=False)
    cluster.assert_caught_up("billing", within=60)
    ends = dict.fromkeys(cluster.lag("billing"), 0)
    assert ends == {("orders", partition): 0 for partition in range(6)}
    assert sum(cluster.committed("billing").values()) == 60
    consumer.close()
    with pytest.raises(UnknownTopicError, match="did you mean 'orders'"):
        cluster.records("order")
    with pytest.raises(KitError, match=r"cannot create topic orders: .*already exists"):
        cluster.create_topics({"orders": 1})


def test_an_assertion_waits_at_all_leaders(cluster):
    cluster.create_topics({"watched": 3})
    found = []
    waiting = threading.Thread(
        target=lambda: found.append(cluster.assert_produced("watched", value="here", within=120)), daemon=True
    )
    waiting.start()
    made = cluster.produce_all("watched", [{"value": value, "partition": 2} for value in ("no", "here")])
    waiting.join(120)
    assert found == [made[1]]
    with pytest.raises(AssertionError, match="watched-2@0"):
        cluster.assert_produced("watched", value="there", within=0.01)


def test_it_goes_on_when_a_leader_is_lost(cluster):
    cluster.create_topics({"moved": 1})
    made = [cluster.produce("moved", "before")]
    lost = cluster.leader("moved", 0)
    cluster.kill(lost)
    try:
        made.append(cluster.produce("moved", "after"))
        assert cluster.records("moved") == made
    finally:
        cluster.restart(lost)
        cluster.await_in_sync()


def test_without_a_cluster_the_error_says_so():
    with pytest.raises(RuntimeError, match="the cluster does not run"):
        odradek.cluster().records("t")
