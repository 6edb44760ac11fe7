"""The traffic of topics, as the metrics report it: what is sent counts once, and redirections are no failures."""

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, fetch_request

from odradek.gateway.replication.assignment import Assignment
from odradek.gateway.replication.replica import Replica
from odradek.gateway.replication.traffic import TopicTraffic
from odradek.partitions.in_sync import Membership
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

NODE, OTHER, EPOCH = 1, 2, 5
ONE = batch_of(b"one")
LONG_MS = 60_000


@pytest.fixture
def broker():
    with ThreadBroker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", ONE)
        yield client


def replica_of(broker) -> Replica:
    return broker.broker.services.replicas.get("t", 0)


def counts(broker, *names: str) -> list[int]:
    traffic: TopicTraffic = broker.in_trio(lambda: replica_of(broker).traffic)
    return [getattr(traffic, name) for name in names]


def assign(broker, leader: int, replicas: tuple[int, ...] = (NODE, OTHER), epoch: int = EPOCH) -> None:
    membership = Membership(NODE, replicas, (NODE,), epoch)
    assigned = Assignment(epoch, leader, leads=leader == NODE, membership=membership)
    broker.in_trio(lambda: replica_of(broker).assign(assigned))


def await_waiting(broker, watched) -> None:
    """Returns when a fetch waits for the log."""
    while not broker.in_trio(lambda: watched(replica_of(broker)).watchers):
        pass


def test_a_fetch_that_waits_counts_once_with_the_bytes_that_are_sent(broker, client):
    with RawClient(broker.address) as consumer:
        asked = fetch_request("t", [(0, 0)], min_bytes=3 * len(ONE), max_wait_ms=LONG_MS)
        sent = consumer.send(asked)
        for _ in range(2):
            await_waiting(broker, lambda replica: replica)
            client.produce("t", ONE)
        [part] = consumer.receive(sent).responses[0].partitions
    assert len(bytes(part.records)) == 3 * len(ONE)
    assert counts(broker, "fetches", "bytes_out") == [1, 3 * len(ONE)]


def test_a_followers_fetch_that_waits_counts_the_bytes_that_are_sent(broker, client):
    assign(broker, NODE)
    partition = FetchPartition(partition=0, current_leader_epoch=EPOCH, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(
        replica_state=ReplicaState(replica_id=OTHER, replica_epoch=1),
        max_wait_ms=LONG_MS,
        min_bytes=2 * len(ONE),
        topics=(FetchTopic(topic_id=replica_of(broker).key.topic_id, partitions=(partition,)),),
    )
    with RawClient(broker.address) as follower:
        sent = follower.send(asked, 17)
        await_waiting(broker, lambda replica: replica.tail)
        client.produce("t", ONE, acks=1)
        [part] = follower.receive(sent).responses[0].partitions
    assert len(bytes(part.records)) == 2 * len(ONE)
    assert broker.broker.services.replicas.traffic.replicated_out_bytes == 2 * len(ONE)


def test_redirections_and_other_errors_of_normal_operation_are_no_failures(broker, client):
    client.create_topic("small", max_message_bytes="10")
    assert client.produce("small", ONE).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert broker.broker.services.replicas.get("small", 0).traffic.failed_produces == 0
    assert client.fetch("t", 99).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assign(broker, OTHER)
    assert client.fetch("t", current_leader_epoch=EPOCH - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert client.produce("t", ONE).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert counts(broker, "produces", "failed_produces", "fetches", "failed_fetches") == [2, 0, 2, 0]


def test_a_batch_out_of_sequence_is_a_failed_produce(broker, client):
    producer = {"producer_id": 7, "producer_epoch": 0}
    client.produce("t", batch_of(b"first", base_sequence=0, **producer))
    refused = client.produce("t", batch_of(b"third", base_sequence=2, **producer))
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert counts(broker, "produces", "failed_produces") == [3, 1]
