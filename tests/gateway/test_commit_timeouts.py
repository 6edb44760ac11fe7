"""A commit that hangs: which requests are answered meanwhile, with which errors, and that the write still counts."""

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, only, produce_many, produce_request
from gateway_groups import commit_error, committed, find
from gateway_transactions import Transactional

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest


@pytest.fixture
def broker():
    with ThreadBroker(offsets_commit_timeout_ms=300, offsets_topic_num_partitions=1) as broker:
        yield broker


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as client:
        yield client


def test_acks_all_times_out_with_the_offset_that_the_batch_has(broker, client):
    client.create_topic("t")
    client.produce("t", batch_of(b"first"))
    broker.env.hold()
    sent = client.send(produce_request("t", batch_of(b"held"), acks=-1, timeout_ms=1))
    answer = only(client.receive(sent))
    assert (ErrorCode(answer.error_code).name, answer.base_offset) == ("REQUEST_TIMED_OUT", 1)
    broker.env.release()
    assert client.produce("t", batch_of(b"next")).base_offset == 2
    assert client.values("t") == [b"first", b"held", b"next"]


def test_acks_one_waits_for_the_disk_of_the_leader_however_long(broker, client):
    client.create_topic("t")
    client.produce("t", batch_of(b"first"))
    broker.env.hold()
    waiting = client.send(produce_request("t", batch_of(b"one"), acks=1, timeout_ms=1))
    with RawClient(broker.address) as other:
        timed_out = only(other.call(produce_request("t", batch_of(b"all"), acks=-1, timeout_ms=1)))
    assert timed_out.error_code == ErrorCode.REQUEST_TIMED_OUT
    broker.env.release()
    assert only(client.receive(waiting)).error_code == 0
    # The two connections may be read in either order, and the timed-out batch may be committed a moment later.
    while len(values := client.values("t")) < 3:
        assert sorted(values) == [b"first", b"one"]
    assert sorted(values) == [b"all", b"first", b"one"]


def test_partitions_that_are_committed_in_time_are_answered_so(broker, client):
    client.create_topic("t", partitions=2)
    known = batch_of(b"known", producer_id=7, producer_epoch=0, base_sequence=0)
    client.produce("t", known)
    client.produce("t", batch_of(b"opens it"), partition=1)
    broker.env.hold()
    answer = client.call(produce_many([("t", 0, known), ("t", 1, batch_of(b"held"))], timeout_ms=1))
    parts = [part for topic in answer.responses for part in topic.partition_responses]
    assert [(part.index, part.error_code, part.base_offset) for part in parts] == [
        (0, 0, 0), (1, ErrorCode.REQUEST_TIMED_OUT, 1)
    ]  # fmt: skip


def test_an_offset_commit_times_out_and_counts_later(broker, client):
    assert find(client, "g") == 0
    client.create_topic("t")
    assert commit_error(client, "g", 3) == 0
    broker.env.hold()
    assert ErrorCode(commit_error(client, "g", 5)).name == "COORDINATOR_NOT_AVAILABLE"
    broker.env.release()
    assert commit_error(client, "g", 6, partition=1) in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert committed(client, "g")[("t", 0)] == 5


def initialize(client: RawClient, timeout_ms: int) -> ErrorCode:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=timeout_ms)
    return ErrorCode(client.call(request).error_code)


def test_a_transaction_waits_no_longer_than_its_own_timeout_for_its_log(broker, client):
    """As in Kafka, so that a coordinator that is cut off from the other brokers soon sends its producers elsewhere."""
    Transactional(client, "t")
    broker.env.hold()
    assert initialize(client, timeout_ms=300).name == "COORDINATOR_NOT_AVAILABLE"
    broker.env.release()
    assert initialize(client, timeout_ms=60_000).name == "NONE"
