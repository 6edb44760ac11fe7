"""Events that a test lets happen in its broker, as real clients notice them."""

import asyncio  # noqa: TID251 - the loop of a test
import time
from itertools import count

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from gateway_client import RawClient, batch_of, fetch_request
from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener

import odradek
from odradek.wire.errors import ErrorCode

QUICK = {"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 200}
WITHIN_S = 30
_names = count()


@pytest.fixture(scope="module")
def broker():
    with odradek.broker(config=QUICK) as running:
        yield running


@pytest.fixture
def topic(broker):
    name = f"events-{next(_names)}"
    broker.create_topic(name, partitions=2)
    yield name
    broker.faults.clear()


class Member:
    """A consumer of librdkafka, and what its callbacks were told."""

    def __init__(self, broker, topic, protocol, client_id="member"):
        self.told = []
        self.group = f"group-{topic}-{protocol}"
        config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": self.group,
            "group.protocol": protocol,
            "client.id": client_id,
        }
        if protocol == "classic":
            config |= {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}
        self.consumer = Consumer(config)
        self.consumer.subscribe(
            [topic],
            on_assign=lambda _, parts: self.told.append(("assigned", len(parts))),
            on_revoke=lambda _, parts: self.told.append(("revoked", len(parts))),
            on_lost=lambda _, parts: self.told.append(("lost", len(parts))),
        )

    def until_told(self, *what):
        deadline = time.monotonic() + WITHIN_S
        while self.told != list(what) and time.monotonic() < deadline:
            self.consumer.poll(0.05)
        assert self.told == list(what)
        self.told.clear()


@pytest.fixture
def member(broker, topic):
    members = []

    def join(protocol, **options):
        members.append(Member(broker, topic, protocol, **options))
        return members[-1]

    yield join
    for each in members:
        each.consumer.close()


def test_a_classic_group_rebalances(broker, member):
    joined = member("classic")
    joined.until_told(("assigned", 2))
    [member_id] = broker.rebalance(joined.group)
    assert member_id.startswith("member-")
    joined.until_told(("revoked", 2), ("assigned", 2))


def test_a_group_of_kafka_python_rebalances(broker, topic):
    told = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            told.append(("revoked", len(revoked)))

        def on_partitions_assigned(self, assigned):
            told.append(("assigned", len(assigned)))

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=f"py-{topic}", heartbeat_interval_ms=100)
    consumer.subscribe([topic], listener=Listener())
    _poll_until(consumer, lambda: ("assigned", 2) in told)
    told.clear()
    broker.rebalance(f"py-{topic}")
    _poll_until(consumer, lambda: told == [("revoked", 2), ("assigned", 2)])
    consumer.close()


def _poll_until(consumer, is_true):
    deadline = time.monotonic() + WITHIN_S
    while not is_true() and time.monotonic() < deadline:
        consumer.poll(50)
    assert is_true()


def test_a_consumer_group_gets_a_new_epoch(broker, member):
    from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    joined = member("consumer")
    joined.until_told(("assigned", 2))
    with RawClient((broker.host, broker.port)) as client:

        def epoch():
            return client.call(ConsumerGroupDescribeRequest(group_ids=(joined.group,))).groups[0].group_epoch

        before = epoch()
        assert len(broker.rebalance(joined.group)) == 1
        assert epoch() == before + 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_whose_session_expires_loses_its_partitions_and_joins_again(broker, member, protocol):
    joined = member(protocol)
    joined.until_told(("assigned", 2))
    assert len(broker.expire_session(joined.group, client_id="member")) == 1
    joined.until_told(("lost", 2), ("assigned", 2))


def test_only_the_chosen_member_expires(broker, member):
    one, two = member("classic", client_id="one"), member("classic", client_id="two")
    deadline = time.monotonic() + WITHIN_S
    while not (one.told[-1:] == two.told[-1:] == [("assigned", 1)]) and time.monotonic() < deadline:
        one.consumer.poll(0.05)
        two.consumer.poll(0.05)
    two.told.clear()
    [expired] = broker.expire_session(one.group, client_id="two")
    assert expired.startswith("two-")
    while ("assigned", 1) not in two.told and time.monotonic() < deadline:
        one.consumer.poll(0.05)
        two.consumer.poll(0.05)
    assert two.told[0] == ("lost", 1)
    assert ("lost", 1) not in one.told
    with pytest.raises(RuntimeError, match="no such member"):
        broker.expire_session(one.group, client_id="three")


def test_a_fenced_producer_cannot_commit(broker, topic):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(WITHIN_S)
    broker.fence_producer(topic)
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(WITHIN_S)
    assert raised.value.args[0].name().endswith("FENCED")
    with RawClient((broker.host, broker.port)) as client:
        part = client.fetch(topic, isolation_level=1)
        assert [each.first_offset for each in part.aborted_transactions] == [0]


def test_a_leader_that_moves_is_found_again(broker, topic):
    with RawClient((broker.host, broker.port)) as client:
        assert client.fetch(topic, current_leader_epoch=0).error_code == 0
        assert broker.move_leader(topic) == 1
        assert client.fetch(topic).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert client.produce(topic, batch_of(b"x")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert client.fetch(topic, current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert client.fetch(topic, current_leader_epoch=1).error_code == 0
        assert client.produce(topic, batch_of(b"x")).error_code == 0
        both = client.call(fetch_request(topic, [(1, 0)], current_leader_epoch=0))
        assert both.responses[0].partitions[0].error_code == 0, "the other partition has its leader still"


def test_connections_of_a_client_are_closed(broker, topic):
    address = (broker.host, broker.port)
    with RawClient(address, "kicked") as kicked, RawClient(address, "kept") as kept:
        assert kicked.end_offset(topic) == kept.end_offset(topic) == 0
        assert broker.disconnect("kicked") == 1
        assert kicked.is_closed_by_broker()
        assert kept.end_offset(topic) == 0
        assert broker.disconnect("kicked") == 0
        assert broker.disconnect() >= 1
        assert kept.is_closed_by_broker()


def test_what_does_not_exist(broker):
    with pytest.raises(RuntimeError, match="group none has no members"):
        broker.rebalance("none")
    with pytest.raises(RuntimeError, match="group none has no such member"):
        broker.expire_session("none")
    with pytest.raises(LookupError, match="no producer has used the transactional id 'none'"):
        broker.fence_producer("none")
    with pytest.raises(RuntimeError, match="there is no partition none-0"):
        broker.move_leader("none")


def test_a_broker_that_does_not_run():
    with pytest.raises(RuntimeError, match="the broker does not run"):
        odradek.broker().rebalance("g")


def test_events_under_asyncio(broker, topic):
    async def main():
        epoch = await broker.aio.move_leader(topic)
        with pytest.raises(RuntimeError, match="group none has no members"):
            await broker.aio.rebalance("none")
        return epoch

    assert asyncio.run(main()) == 1
