"""Transactions over sockets: raw requests to a broker in process, and librdkafka with a broker that is killed."""

import logging
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from gateway_brokers import ProcessBroker, ThreadBroker, logged
from gateway_client import RawClient, assert_serves
from gateway_transactions import Transactional, committed_offset, settled, stable_and_aborted

from odradek.gateway.server.context import TURN_EVERY
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_names = count()


@pytest.fixture
def producer(client):
    return Transactional(client, f"id-{next(_names)}")


def test_readers_see_a_transaction_when_it_is_committed(client, topic, producer):
    assert producer.add(topic, 0) == {0}
    assert producer.write(topic, b"one") == 0
    assert stable_and_aborted(client, topic) == (0, [])
    assert producer.end(True) == 0
    assert stable_and_aborted(client, topic) == (2, [])
    assert producer.add(topic, 0) == {0}
    assert producer.write(topic, b"two") == 0
    assert producer.end(False) == 0
    assert stable_and_aborted(client, topic) == (4, [2])


def test_the_end_is_answered_before_the_markers_are_written(shared_broker, topic, producer, monkeypatch):
    services = shared_broker.broker.services
    end_transaction = services.transactions.end_transaction
    markers = []

    async def ending(*claim, **decision):
        log = services.replicas.get(topic, 0).log
        before = log.log_end_offset
        ended = await end_transaction(*claim, **decision)
        markers.append(log.log_end_offset - before)
        return ended

    monkeypatch.setattr(services.transactions, "end_transaction", ending)
    for _ in range(20):
        assert producer.add(topic, 0) == {0}
        assert producer.write(topic, b"one") == 0
        assert producer.end(True) == 0
    assert markers == [0] * 20


def test_a_partition_that_takes_no_part_refuses_the_batch(client, topic, producer):
    assert producer.write(topic, b"hanging") == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.add(topic, 0) == {0}
    assert producer.write(topic, b"known") == 0
    assert producer.end(True) == 0
    # This write is late: its transaction has ended, and no marker would follow.
    assert producer.write(topic, b"late") == ErrorCode.TRANSACTION_ABORTABLE
    assert stable_and_aborted(client, topic) == (2, [])


def test_offsets_count_when_their_transaction_does(client, topic, producer):
    group = f"{producer.name}-group"
    assert producer.commit_offset(topic, 1, group) == ErrorCode.TRANSACTION_ABORTABLE
    for offset, committed, after in ((5, False, -1), (7, True, 7), (9, False, 7)):
        assert producer.add_offsets(group) == 0
        assert producer.commit_offset(topic, offset, group) == 0
        assert committed_offset(client, topic, group) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert producer.end(committed) == 0
        assert committed_offset(client, topic, group) == (0, after)


def listed(client, pattern, **filters):
    """(error, ids) of ListTransactions."""
    answer = client.call(ListTransactionsRequest(transactional_id_pattern=pattern, **filters))
    return answer.error_code, sorted(one.transactional_id for one in answer.transaction_states)


def test_ids_are_listed_by_a_regular_expression(client):
    number = next(_names)
    names = [f"list-{number}/{of}" for of in range(TURN_EVERY + 2)]
    for name in names:
        Transactional(client, name)
    for everything in (None, ""):
        assert set(names) <= set(listed(client, everything)[1])
    assert listed(client, f"list-{number}/.*") == (0, sorted(names))
    assert listed(client, f"LIST-{number}/0") == (0, [])
    assert listed(client, f"(?i)LIST-{number}/[01]") == (0, names[:2])
    assert listed(client, f"list-{number}/0", state_filters=("Ongoing",)) == (0, [])
    for refused in ("[", r"(a)\1", "a" * 10_000):
        assert listed(client, refused) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


def test_the_next_producer_aborts_what_its_predecessor_left(client, topic, producer):
    assert producer.add(topic, 0) == {0}
    assert producer.write(topic, b"left") == 0
    successor = Transactional(client, producer.name)  # waits for the markers instead of being refused
    assert successor.pid == producer.pid
    assert successor.epoch == producer.epoch + 2
    assert stable_and_aborted(client, topic) == (2, [0])
    assert producer.add(topic, 0) == {ErrorCode.PRODUCER_FENCED}
    assert producer.end(True) == ErrorCode.PRODUCER_FENCED
    assert producer.write(topic, b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transaction_that_takes_too_long_is_aborted(client, topic):
    producer = Transactional(client, f"id-{next(_names)}", timeout_ms=50)
    assert producer.add(topic, 0) == {0}
    while producer.state() != "CompleteAbort":
        pass
    assert producer.end(True) == ErrorCode.PRODUCER_FENCED
    assert stable_and_aborted(client, topic)[0] == 1


def test_markers_of_a_deleted_topic_are_not_waited_for(client, producer):
    from odradek.wire.messages.delete_topics import DeleteTopicsRequest

    name = f"topic-{producer.name}"
    client.create_topic(name)
    assert producer.add(name, 0) == {0}
    assert producer.write(name, b"gone") == 0
    assert client.call(DeleteTopicsRequest(topic_names=(name,))).responses[0].error_code == 0
    assert producer.end(True) == 0
    assert producer.state() == "CompleteCommit"


def test_a_decision_is_carried_out_after_a_crash(tmp_path):
    """Killed right after the reply to EndTxn, several times: after a restart all markers and offsets are there."""
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t", 3)
        for turn in range(3):
            with RawClient(broker.address) as client:
                producer = Transactional(client, "id")
                assert producer.add("t", 0, 1, 2) == {0}
                assert producer.add_offsets() == 0
                assert [producer.write("t", b"%d" % turn, partition) for partition in range(3)] == [0, 0, 0]
                assert producer.commit_offset("t", turn) == 0
                assert producer.send_end(True).error_code == 0
            broker.kill()
            broker.start()
            with RawClient(broker.address) as client:
                wait_until_coordinated(client, "id")
                for partition in range(3):
                    assert settled(client, "t", partition) == [b"%d" % each for each in range(turn + 1)]
                assert committed_offset(client, "t") == (0, turn)


def wait_until_coordinated(client, name):
    """Waits until the coordinator has loaded the id and written its markers."""
    while True:
        [found] = client.call(DescribeTransactionsRequest(transactional_ids=(name,))).transaction_states
        if found.transaction_state in {"CompleteCommit", "CompleteAbort"}:
            return


def forge_marker(client, topic, producer, coordinator_epoch, partition=0):
    """The error of a marker from a client that claims to be a coordinator with that epoch."""
    topics = (WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),)
    marker = WritableTxnMarker(
        producer_id=producer.pid,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=topics,
        coordinator_epoch=coordinator_epoch,
    )
    [answer] = client.call(WriteTxnMarkersRequest(markers=(marker,)), 1).markers
    return answer.topics[0].partitions[0].error_code


def test_a_client_cannot_fence_the_coordinators_with_an_epoch_that_none_has(client, topic, producer):
    assert (producer.add(topic, 0), producer.write(topic, b"one")) == ({0}, 0)
    assert producer.end(True) == 0
    assert forge_marker(client, topic, producer, coordinator_epoch=2**31 - 1) == ErrorCode.INVALID_REQUEST
    assert (producer.add(topic, 0), producer.write(topic, b"two")) == ({0}, 0)
    assert forge_marker(client, topic, producer, coordinator_epoch=2**31 - 1) == ErrorCode.INVALID_REQUEST
    assert producer.end(True) == 0
    assert settled(client, topic) == [b"one", b"two"]


def test_a_transaction_with_a_refused_marker_is_not_completed(shared_broker, client, topic, producer, caplog):
    """As in Kafka: it stays decided until a coordinator with a later epoch completes it."""
    client.create_topic(f"{topic}-wide", 2)
    wide = f"{topic}-wide"
    assert (producer.add(wide, 0, 1), producer.write(wide, b"before")) == ({0}, 0)
    assert producer.end(True) == 0
    assert forge_marker(client, wide, producer, coordinator_epoch=100) == 0
    assert producer.add(wide, 0, 1) == {0}
    assert (producer.write(wide, b"one"), producer.write(wide, b"two", 1)) == (0, 0)
    assert producer.send_end(True).error_code == 0  # the decision is stored
    while not logged(caplog, logging.ERROR, f"not completed transactional_id={producer.name}", "COORDINATOR_FENCED"):
        assert_serves(shared_broker.address)
    assert producer.state() == "PrepareCommit"
    assert producer.add(wide, 0) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert settled(client, wide, 1) == [b"two"], "the other partition has its marker"
    assert stable_and_aborted(client, wide)[0] < client.end_offset(wide)


def read_committed(bootstrap: str, partition: int) -> list[int]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    reader = Consumer(settings | {"enable.partition.eof": True, "log_level": 0, "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition("out", partition, 0)])
    found: list[int] = []
    while True:
        message = reader.poll(30)
        assert message is not None, "no end of the partition in 30 s"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - a public constant
            reader.close()
            return found
        found.append(int(message.value()))


def run_pipeline(bootstrap: str, total: int) -> "subprocess.Popen[str]":
    script = Path(__file__).with_name("transaction_pipeline.py")
    return subprocess.Popen([sys.executable, str(script), bootstrap, str(total)], stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(180)
def test_exactly_once_under_kill_9(tmp_path):
    """Every number is in each partition once and in order, despite aborts, retries and crashes."""
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("in")
            client.create_topic("out", 2)
        bootstrap, kills, committed, finished = f"127.0.0.1:{broker.port}", 4, 0, False
        while not finished:
            with run_pipeline(bootstrap, 400) as pipeline:
                assert pipeline.stdout is not None
                for _ in pipeline.stdout:
                    committed += 1
                    if kills and committed % 6 == 0:
                        kills -= 1
                        broker.kill()
                        broker.start()
                finished = pipeline.wait() == 0
        for partition in range(2):
            assert read_committed(bootstrap, partition) == list(range(400))


def test_the_state_topic_can_be_read_as_kafka_writes_it(client, topic, producer):
    """Records of every state, in Kafka's format, in the partition that Kafka would choose."""
    from odradek.coordinator.partitioner import partition_for
    from odradek.coordinator.transactions.records import decode_id, decode_transaction

    assert producer.add(topic, 0) == {0}
    assert producer.end(True) == 0
    partition = partition_for(producer.name, 50)
    records = [record for _, batch in client.fetch_all("__transaction_state", partition) for record in batch]
    mine = [record for record in records if decode_id(record.key) == producer.name]
    states = [decode_transaction(producer.name, record.value).state.label for record in mine]
    assert states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


def test_deleting_the_state_topic_removes_all_transactions(topic):
    from odradek.wire.messages.delete_topics import DeleteTopicsRequest

    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        producer = Transactional(client, "id")
        client.call(DeleteTopicsRequest(topic_names=("__transaction_state",)))
        assert producer.add("t", 0) == {ErrorCode.NOT_COORDINATOR}
        assert Transactional(client, "id").epoch == 0
