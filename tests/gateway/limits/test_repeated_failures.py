"""Failures that happen thousands of times write few log lines, each with the cause."""

import resource
from contextlib import ExitStack

from gateway_client import RawClient, assert_serves, batch_of
from gateway_groups import commit_error, find
from gateway_transactions import Transactional
from limited_broker import LimitedBroker, lines_with

FILES = 192
PARTITIONS = 300
GROUPS = 50
MALFORMED = (
    b"\xff\xff\xff\xff",  # a negative length
    b"\x7f\xff\xff\xff",  # a length beyond the limit
    b"\x00\x00\x00\x03abc",  # no header
    b"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff",  # Metadata of 2 billion topics
)


def test_a_storm_of_failures_for_want_of_descriptors(tmp_path):
    """A client with 300 partitions, 50 groups, a transaction and new connections while no file can be opened."""
    with LimitedBroker(tmp_path / "data", nofile=FILES) as broker, RawClient(broker.address) as client:
        client.create_topic("t", partitions=PARTITIONS, retention_ms="-1")
        assert find(client, "g") == 0
        assert produce_to_all(client) == {0}
        assert commit_to_all(client) == {0}
        transaction = Transactional(client, "tx")
        assert transaction.add("t", 0) == {0}
        assert transaction.end(committed=True) == 0
        assert transaction.add("t", *range(PARTITIONS)) == {0}
        broker.limit(resource.RLIMIT_NOFILE, 12)
        transaction.send_end(committed=True)
        with ExitStack() as refused:
            for _ in range(4):
                assert produce_to_all(client) != {0}  # the logs used last may still be open
                assert commit_to_all(client) != {0}
                for _ in range(20):
                    refused.enter_context(RawClient(broker.address))
            assert len(broker.log().splitlines()) < 12, broker.log()
            broker.limit(resource.RLIMIT_NOFILE, FILES)
        assert produce_to_all(client) == {0}
        assert commit_to_all(client) == {0}
        while transaction.end(committed=True):
            pass  # the transaction's log is opened again, or markers are being written
        assert_serves(broker.address)
        assert len(broker.log().splitlines()) < 15, broker.log()
        assert lines_with(broker, "connections are refused", "ulimit -n")
        assert lines_with(broker, "partition=t-", "ulimit -n")
        assert lines_with(broker, "level=ERROR") == lines_with(broker, "level=ERROR", "ulimit -n")
        assert "Traceback" not in broker.log()


def produce_to_all(client):
    return {client.produce("t", batch_of(b"x"), partition).error_code for partition in range(PARTITIONS)}


def commit_to_all(client):
    return {commit_error(client, f"g{number}", 1) for number in range(GROUPS)}


def test_a_client_that_sends_thousands_of_malformed_frames(tmp_path):
    """Each kind is logged once and then counted, including a kind that appears later."""
    with LimitedBroker(tmp_path / "data") as broker:
        for _ in range(1000):
            for malformed in MALFORMED[:3]:
                send(broker.address, malformed)
        send(broker.address, MALFORMED[3])
        assert_serves(broker.address)
        closings = lines_with(broker, "closing connection peer=127.0.0.1:")
        assert len(closings) == len(MALFORMED)
        for line, cause in zip(
            closings, ("announces -1", "announces 2147483647", "too short", "METADATA v1"), strict=True
        ):
            assert cause in line
        assert lines_with(broker, "level=WARNING") == closings
        assert "Traceback" not in broker.log()


def send(address, data):
    with RawClient(address) as client:
        client.send_bytes(data)
        assert client.is_closed_by_broker()
