"""The transaction coordinator after failures of its own log, or of those of the partitions."""

import logging
import time

from gateway_brokers import FaultyEnvironment, ThreadBroker, logged
from gateway_client import RawClient
from gateway_transactions import Transactional, stable_and_aborted
from test_maintenance_faults import until

from odradek.gateway.coordinators import transactions
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

STATE = "__transaction_state"


def reload(broker: ThreadBroker, client: RawClient) -> None:
    """Let a write of the coordinator fail, so that its shard is discarded; the next request loads it again."""
    broker.env.no_writes.add(STATE)
    request = InitProducerIdRequest(transactional_id="other", transaction_timeout_ms=60_000)
    assert client.call(request).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.env.no_writes.discard(STATE)


def decided(broker: ThreadBroker, client: RawClient, other: RawClient) -> Transactional:
    """A committed transaction whose marker cannot be written, after its shard was loaded again."""
    producer = Transactional(client, "tx")
    assert producer.add("t", 0) == {0}
    assert producer.write("t", b"first") == 0
    broker.env.no_writes.add("t-0")
    assert producer.send_end(True).error_code == 0
    assert producer.state() == "PrepareCommit"
    reload(broker, other)
    assert producer.state() == "PrepareCommit"
    return producer


def test_the_markers_of_a_decision_are_not_written_into_the_next_transaction():
    """The producer of version 1 has the same epoch in it. The task from before the load must not write markers."""
    with (
        ThreadBroker(transaction_state_log_num_partitions=1) as broker,
        RawClient(broker.address) as client,
        RawClient(broker.address) as other,
    ):
        client.create_topic("t")
        producer = decided(broker, client, other)
        broker.env.no_writes.clear()
        assert producer.add("t", 0) == {0}
        assert producer.write("t", b"second") == 0
        time.sleep(3 * transactions.MARKER_RETRY_MS / 1000)  # for a late marker, of which nothing could be seen earlier
        assert producer.end(False) == 0
        written = [header.base_offset for header, _ in client.fetch_all("t") if not header.is_control]
        assert stable_and_aborted(client, "t")[1] == written[1:], "a marker may be there twice before the second record"


def test_the_next_transaction_is_not_completed_without_its_markers(tmp_path, monkeypatch):
    monkeypatch.setattr(transactions, "MARKER_RETRY_MS", 1000)  # the tasks of two transactions overlap for a second
    broker = ThreadBroker(f"lmdb://{tmp_path}/data", transaction_state_log_num_partitions=1)
    with broker, RawClient(broker.address) as client, RawClient(broker.address) as other:
        client.create_topic("t")
        client.create_topic("u")
        producer = decided(broker, client, other)
        broker.env.no_writes.clear()
        until(lambda: producer.state() == "CompleteCommit")
        assert producer.add("u", 0) == {0}
        assert producer.write("u", b"second") == 0
        broker.env.no_writes.add("u-0")
        assert producer.send_end(True).error_code == 0
        time.sleep(1.5)  # for a task of the first transaction, of which nothing could be seen earlier
        assert producer.state() == "PrepareCommit"
        broker.env.no_writes.clear()
        until(lambda: producer.state() == "CompleteCommit")
        assert stable_and_aborted(client, "u") == (2, [])


def test_a_shard_that_could_not_be_loaded_is_loaded_again_without_a_request(tmp_path, broker_log):
    """Otherwise its transactions do not time out."""

    class Unreadable(FaultyEnvironment):
        def __init__(self) -> None:
            super().__init__()
            self.no_reads.add(STATE)

    broker = ThreadBroker(f"lmdb://{tmp_path}/data", transaction_state_log_num_partitions=1)
    with broker, RawClient(broker.address) as client:
        client.create_topic("t")
        producer = Transactional(client, "tx", timeout_ms=1000)
        assert producer.add("t", 0) == {0}
        assert producer.write("t", b"first") == 0
        broker.stop()
        broker.make_env = Unreadable
        broker.start()
        with RawClient(broker.address) as again:
            until(lambda: logged(broker_log, logging.ERROR, "cannot open partition=__transaction_state"))
            broker.env.no_reads.clear()
            until(lambda: stable_and_aborted(again, "t") == (2, [0]))


def test_a_shard_whose_write_failed_is_loaded_again_without_a_request(broker_log):
    """The write of a time-out's decision, for example."""
    with ThreadBroker(transaction_state_log_num_partitions=1) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        producer = Transactional(client, "tx", timeout_ms=1000)
        assert producer.add("t", 0) == {0}
        assert producer.write("t", b"first") == 0
        broker.env.no_writes.add(STATE)
        until(lambda: logged(broker_log, logging.ERROR, "coordinator shard discarded"))
        broker.env.no_writes.clear()
        until(lambda: stable_and_aborted(client, "t") == (2, [0]))
