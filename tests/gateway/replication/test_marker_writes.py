"""Transaction markers in partitions with replicas: when they are appended, and when they are refused."""

import logging
from functools import partial

import pytest
import trio
from gateway_brokers import ThreadBroker, logged
from gateway_client import RawClient, batch_of
from gateway_transactions import Transactional, committed_offset, stable_and_aborted
from test_maintenance_faults import until

from odradek.coordinator.contract import Producer
from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS
from odradek.gateway.coordinators.markers import Marker
from odradek.gateway.coordinators.runtime import ShardState
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.assignment import Assignment
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.partitions.in_sync import Membership
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

NODE, FOLLOWER = 1, 2


@pytest.fixture
def broker():
    with ThreadBroker(offsets_topic_num_partitions=1, request_timeout_ms=2000) as broker:
        yield broker


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t", min_insync_replicas="2")
        client.produce("t", batch_of(b"before"))
        yield client


class Led:
    """A partition of which the broker is the leader, and of which another one is to have a replica."""

    def __init__(self, broker: ThreadBroker, topic: str):
        self.broker = broker
        self.replica: Replica = broker.broker.services.replicas.get(topic, 0)
        self.partition_epoch = 0

    def assign(self, *isr: int, replicas=(NODE, FOLLOWER)):
        """The follower of an ISR of two never fetches, so nothing is committed."""
        self.partition_epoch += 1
        membership = Membership(NODE, replicas, isr, self.partition_epoch)
        epoch = self.broker.in_trio(lambda: self.replica.log.leader_epoch)
        self.broker.in_trio(lambda: self.replica.assign(Assignment(epoch, NODE, leads=True, membership=membership)))

    def alone(self):
        self.assign(NODE, replicas=(NODE,))

    def end_offset(self):
        return self.broker.in_trio(lambda: self.replica.log.log_end_offset)


def markers(*topics: str, producer_ids=(7,)):
    places = tuple([WritableTxnMarkerTopic(name=topic, partition_indexes=(0,)) for topic in topics])
    asked = [WritableTxnMarker(producer_id=each, producer_epoch=0, topics=places) for each in producer_ids]
    return WriteTxnMarkersRequest(markers=tuple(asked))


def errors(response):
    return [part.error_code for each in response.markers for topic in each.topics for part in topic.partitions]


def is_tried_again(caplog):
    return logged(caplog, logging.WARNING, "marker not written, tried again", "NOT_ENOUGH_REPLICAS")


def test_all_markers_of_a_request_are_appended_before_the_first_is_committed(broker, client):
    led = Led(broker, "t")
    led.assign(NODE, FOLLOWER)
    sent = client.send(markers("t", producer_ids=range(300)))
    until(lambda: led.end_offset() == 1 + 300)
    led.alone()
    assert errors(client.receive(sent)) == [0] * 300


def test_a_marker_that_is_not_committed_in_time_does_not_delay_the_others(broker, client):
    client.create_topic("other")
    Led(broker, "t").assign(NODE, FOLLOWER)
    assert errors(client.call(markers("t", "other"))) == [ErrorCode.REQUEST_TIMED_OUT, 0]


@pytest.mark.parametrize("topic", ["t", CONSUMER_OFFSETS])
def test_a_marker_is_not_appended_after_its_deadline(broker, client, topic):
    producer = Transactional(client, "tx")
    assert producer.add_offsets() == producer.commit_offset("t", 7) == 0
    led, services = Led(broker, topic), broker.broker.services
    before = led.end_offset()
    late = partial(services.transactions.begin_marker, led.replica, Marker(Producer(7, 0), True, 0, 0), 0)
    with pytest.raises(PartitionUnavailable) as caught:
        trio.from_thread.run(late, trio_token=broker.token)
    assert caught.value.error is ErrorCode.REQUEST_TIMED_OUT
    assert led.end_offset() == before


def test_a_marker_is_refused_while_too_few_are_in_sync(broker, client):
    led = Led(broker, "t")
    led.assign(NODE)
    assert errors(client.call(markers("t"))) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert led.end_offset() == 1


def test_a_transaction_ends_when_enough_are_in_sync_again(broker, client, caplog):
    producer = Transactional(client, "tx")
    assert producer.add("t", 0) == {0}
    assert producer.write("t", b"value") == 0
    led = Led(broker, "t")
    led.assign(NODE)
    assert producer.send_end(False).error_code == 0
    until(lambda: is_tried_again(caplog))
    assert (producer.state(), led.end_offset()) == ("PrepareAbort", 2)
    led.alone()
    producer.settle()
    assert stable_and_aborted(client, "t") == (3, [1])


def test_the_offsets_of_a_transaction_count_when_enough_are_in_sync_again(broker, client, caplog):
    client.create_topic(CONSUMER_OFFSETS, min_insync_replicas="2")
    producer = Transactional(client, "tx")
    assert producer.add_offsets() == producer.commit_offset("t", 7) == 0
    services = broker.broker.services
    led, runtime = Led(broker, CONSUMER_OFFSETS), services.groups.runtime(0)
    before = led.end_offset(), runtime.shard
    led.assign(NODE)
    assert errors(client.call(markers(CONSUMER_OFFSETS))) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert producer.send_end(True).error_code == 0
    until(lambda: is_tried_again(caplog))
    assert (led.end_offset(), runtime.shard) == before, "the shard is not loaded again"
    assert runtime.state is ShardState.ACTIVE
    led.alone()
    producer.settle()
    assert committed_offset(client, "t") == (0, 7)


def test_a_marker_whose_write_has_failed_is_written_again_while_others_wait(broker, client):
    client.create_topic("lagging")
    producer = Transactional(client, "tx")
    assert producer.add("t", 0) == producer.add("lagging", 0) == {0}
    assert producer.write("t", b"value") == producer.write("lagging", b"value") == 0
    failing, lagging = Led(broker, "t"), Led(broker, "lagging")
    lagging.assign(NODE, FOLLOWER)
    broker.env.no_writes.add("t-0")
    assert producer.send_end(False).error_code == 0
    until(lambda: failing.replica.state is ReplicaState.FAILED)
    broker.env.no_writes.clear()
    until(lambda: client.fetch("t", isolation_level=1).last_stable_offset >= 3)
    assert producer.state() == "PrepareAbort"
    lagging.alone()
    producer.settle()
