"""Transactions of transaction.version 2 (KIP-890) over sockets: clients add no partitions, no epoch is used twice."""

from itertools import count

import pytest
import trio
from gateway_brokers import ProcessBroker
from gateway_client import RawClient
from gateway_transactions import Transactional2, committed_offset, offset_request, settled, stable_and_aborted
from plant import inside, plant

from odradek.coordinator.groups.shard import GroupShard
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

_names = count()


@pytest.fixture
def producer(client):
    return Transactional2(client, f"two-{next(_names)}")


def test_the_cluster_has_finalized_it(client):
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    levels = {each.name: each.max_version_level for each in client.call(asked).finalized_features}
    assert levels["transaction.version"] == 2


def test_writing_lets_a_partition_take_part(client, topic, producer):
    for turn, committed in enumerate((True, False, True)):
        assert producer.epoch == turn
        assert producer.write(topic, b"first") == 0
        assert producer.write(topic, b"second") == 0
        assert producer.state() == "Ongoing"
        assert producer.end(committed) == 0
    assert stable_and_aborted(client, topic) == (9, [3])


def test_a_marker_that_comes_while_the_coordinator_is_asked_costs_another_question(
    shared_broker, client, topic, producer, monkeypatch
):
    """The marker removes the verification guard; the new transaction's batch must not be refused for good."""
    services = shared_broker.broker.services
    add_for_write, asked = services.transactions.add_for_write, []

    async def overtaken(claim, partitions):
        answer = await add_for_write(claim, partitions)
        asked.extend(partitions)
        if len(asked) % 2:
            for name, indexes in partitions.items():
                for index in indexes:
                    services.replicas.get(name, index).leader.end_verification(claim.producer_id)
        return answer

    monkeypatch.setattr(services.transactions, "add_for_write", overtaken)
    assert producer.write(topic, b"one") == 0
    assert asked == [topic] * 2
    assert producer.commit_offset(topic, 1, "overtaken") == 0
    assert len(asked) == 4
    assert producer.end(True) == 0
    assert stable_and_aborted(client, topic) == (2, [])
    assert committed_offset(client, topic, "overtaken") == (0, 1)


def test_a_late_batch_is_never_taken_for_a_part_of_the_next_transaction(client, topic, producer):
    assert producer.write(topic, b"one") == 0
    late_epoch = producer.epoch
    assert producer.end(True) == 0
    assert producer.write(topic, b"two") == 0
    current = producer.epoch
    producer.epoch, producer.sequences = late_epoch, {(topic, 0): 1}
    assert producer.write(topic, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send_end(False).error_code == ErrorCode.PRODUCER_FENCED
    producer.epoch = current
    assert producer.end(True) == 0
    assert stable_and_aborted(client, topic) == (4, [])


def test_a_lost_answer_to_the_end_is_given_again(client, topic, producer):
    assert producer.write(topic, b"one") == 0
    first = producer.send_end(True)
    producer.settle()
    again = producer.send_end(True)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first.producer_id, first.producer_epoch)
    assert producer.send_end(False).error_code == ErrorCode.INVALID_TXN_STATE
    assert stable_and_aborted(client, topic) == (2, [])


def test_a_producer_that_wrote_nothing_may_abort(producer):
    for turn in range(3):
        assert producer.epoch == turn
        assert producer.end(False) == 0
    assert producer.send_end(True).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_first_batch_of_a_producer_has_to_be_its_first(topic, producer):
    producer.sequences[topic, 0] = 5
    assert producer.write(topic, b"behind a lost one") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences = {}
    assert producer.write(topic, b"first") == 0


def test_committing_offsets_lets_the_group_take_part(client, topic, producer):
    group = f"{producer.name}-group"
    for offset, committed, after in ((5, False, -1), (7, True, 7), (9, False, 7)):
        assert producer.commit_offset(topic, offset, group) == 0
        assert committed_offset(client, topic, group) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert producer.end(committed) == 0
        assert committed_offset(client, topic, group) == (0, after)


def test_a_producer_that_was_too_slow_goes_on_with_the_next_epoch(client, topic):
    producer = Transactional2(client, f"two-{next(_names)}", timeout_ms=50)
    assert producer.write(topic, b"slow") == 0
    while producer.state() != "CompleteAbort":
        pass
    assert producer.write(topic, b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send_end(True).error_code == ErrorCode.INVALID_TXN_STATE
    assert producer.end(False) == 0
    assert producer.epoch == 1
    assert producer.write(topic, b"again") == 0
    assert producer.end(True) == 0
    assert stable_and_aborted(client, topic) == (4, [0])


def test_verification_switched_off_leaves_no_transaction_hanging(tmp_path):
    from gateway_brokers import ThreadBroker

    with ThreadBroker(transaction_partition_verification_enable="false") as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        producer = Transactional2(client, "id")
        assert producer.write("t", b"known all the same") == 0
        assert producer.state() == "Ongoing"
        assert producer.end(True) == 0
        assert stable_and_aborted(client, "t") == (2, [])


def test_a_decision_is_carried_out_after_a_crash(tmp_path):
    """Killed right after the reply to EndTxn: after a restart the markers are there, a retry gets the same answer."""
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t", 3)
            producer = Transactional2(client, "id")
        for turn in range(3):
            with RawClient(broker.address) as client:
                producer.client = client
                assert [producer.write("t", b"%d" % turn, partition) for partition in range(3)] == [0, 0, 0]
                assert producer.commit_offset("t", turn) == 0
                first = producer.send_end(True)
                assert first.error_code == 0
            broker.kill()
            broker.start()
            with RawClient(broker.address) as client:
                producer.client = client
                while producer.state() != "CompleteCommit":
                    pass
                for partition in range(3):
                    assert settled(client, "t", partition) == [b"%d" % each for each in range(turn + 1)]
                assert committed_offset(client, "t") == (0, turn)
                assert producer.end(True) == 0
                assert (producer.pid, producer.epoch) == (first.producer_id, turn + 1)


def test_an_administrator_can_end_what_hangs(client, topic, producer):
    """A marker that an administrator writes ends the transaction; the coordinator's own marker then changes nothing."""
    assert producer.write(topic, b"hangs") == 0
    asked = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(0,)),))
    [active] = client.call(asked).topics[0].partitions[0].active_producers
    assert (active.producer_id, active.producer_epoch, active.current_txn_start_offset) == (producer.pid, 0, 0)
    topics = (WritableTxnMarkerTopic(name=topic, partition_indexes=(0,)),)
    marker = WritableTxnMarker(producer_id=producer.pid, producer_epoch=0, topics=topics, coordinator_epoch=0)
    answered = client.call(WriteTxnMarkersRequest(markers=(marker,)))
    assert answered.markers[0].topics[0].partitions[0].error_code == 0
    assert stable_and_aborted(client, topic) == (2, [0])
    assert producer.end(False) == 0
    described = client.call(DescribeTransactionsRequest(transactional_ids=(producer.name,)))
    assert described.transaction_states[0].transaction_state == "CompleteAbort"


def offset_after_a_marker_by_hand(client, topic, producer):
    """(error, offset) of a group, requested in the frame right after the marker that makes its new offset count."""
    group = f"{producer.name}-group"
    assert producer.commit_offset(topic, 7, group) == 0
    assert committed_offset(client, topic, group) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    described = client.call(DescribeTransactionsRequest(transactional_ids=(producer.name,)))
    [taking_part] = described.transaction_states[0].topics
    assert taking_part.topic == "__consumer_offsets"
    marked_topic = WritableTxnMarkerTopic(name=taking_part.topic, partition_indexes=taking_part.partitions)
    marker = WritableTxnMarker(
        producer_id=producer.pid,
        producer_epoch=producer.epoch,
        transaction_result=True,
        topics=(marked_topic,),
        coordinator_epoch=0,
    )
    sent = client.send(WriteTxnMarkersRequest(markers=(marker,)))
    asked = client.send(offset_request(topic, group))
    assert client.receive(sent).markers[0].topics[0].partitions[0].error_code == 0
    part = client.receive(asked).groups[0].topics[0].partitions[0]
    assert producer.end(True) == 0
    return part.error_code, part.committed_offset


def test_a_marker_is_answered_when_the_offsets_of_its_transaction_count(client, topic, producer):
    """KAFKA-17507."""
    assert offset_after_a_marker_by_hand(client, topic, producer) == (0, 7)


def test_offsets_that_count_later_than_their_marker_is_answered_are_found(client, topic, producer, monkeypatch):
    replay_end = inside(GroupShard, "replay_end")

    def later(*end):
        async def wait():
            await trio.sleep(0.3)
            replay_end(*end)

        trio.lowlevel.spawn_system_task(wait)

    plant(monkeypatch, GroupShard, "replay_end", later)
    assert offset_after_a_marker_by_hand(client, topic, producer) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
