"""Brokers with little address space (ulimit -v) serve many partitions, survive a lack of it, and recover."""

import resource
from concurrent.futures import ThreadPoolExecutor

from gateway_client import RawClient, assert_serves, batch_of
from limited_broker import MB, LimitedBroker, lines_with

STORAGE_ERROR = 56
PARTITIONS = 300
NO_PAUSES = ("--set", "odradek.log.retry.backoff.ms=0")


def test_one_gigabyte_serves_hundreds_of_partitions(tmp_path):
    """Mapping all open segments would exceed the limit, and so would mapping one segment in full."""
    with LimitedBroker(tmp_path / "data", as_=1 << 30) as broker, RawClient(broker.address) as client:
        client.create_topic("t", partitions=PARTITIONS)
        for value in (b"one", b"two"):
            for partition in range(PARTITIONS):
                assert client.produce("t", batch_of(value), partition).error_code == 0
        for partition in range(PARTITIONS):
            assert client.values("t", partition) == [b"one", b"two"]
        assert lines_with(broker, "level=ERROR") == []
        broker.kill()
    with LimitedBroker(tmp_path / "data", as_=1 << 30) as broker, RawClient(broker.address) as client:
        assert [client.end_offset("t", partition) for partition in range(PARTITIONS)] == [2] * PARTITIONS


def test_maps_that_cannot_grow_fail_single_requests_and_lose_nothing(tmp_path):
    """Large batches go to many partitions while 40 MB of address space are left; once there is more, all succeed."""
    with LimitedBroker(tmp_path / "data", *NO_PAUSES) as broker, RawClient(broker.address) as client:
        client.create_topic("t", partitions=100)
        leave(broker, 40 * MB)
        taken = produce_all(broker.address, batch_of(b"v" * 900_000), partitions=100, rounds=3)
        assert sum(taken) < 300  # 40 MB were too little
        assert_serves(broker.address)
        broker.limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
        for partition in range(100):
            assert client.produce("t", batch_of(b"x"), partition).error_code == 0
        assert_log_is_short(broker)
        broker.kill()
    with LimitedBroker(tmp_path / "data") as broker, RawClient(broker.address) as client:
        for partition in range(100):
            assert client.end_offset("t", partition) >= taken[partition] + 1
            assert len(client.values("t", partition)) == client.end_offset("t", partition)


def test_threads_that_cannot_be_started_are_survived(tmp_path):
    """A thread's stack takes 8 MB of address space, and 4 are left: the existing threads make the calls."""
    with LimitedBroker(tmp_path / "data", *NO_PAUSES) as broker, RawClient(broker.address) as client:
        client.create_topic("t", partitions=40)
        leave(broker, 4 * MB)
        produce_all(broker.address, batch_of(b"x"), partitions=40, rounds=3)
        assert_serves(broker.address)
        assert len(lines_with(broker, "cannot start a thread", "ulimit -v")) == 1
        broker.limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
        assert produce_all(broker.address, batch_of(b"x"), partitions=40, rounds=1) == [1] * 40
        assert_log_is_short(broker)
        assert broker.terminate() == 0


def leave(broker, size_bytes):
    """Limits the process to `size_bytes` more address space than it has."""
    broker.limit(resource.RLIMIT_AS, broker.address_space_bytes() + size_bytes)


def produce_all(address, batch, partitions, rounds):
    """Produces from 20 connections at once; returns the number of acknowledged batches per partition."""

    def produce(client, partition):
        try:
            error = client.produce("t", batch, partition).error_code
        except (OSError, EOFError):  # no memory for the request
            client.close()
            return RawClient(address), 0
        assert error in (0, STORAGE_ERROR)
        return client, error == 0

    def produce_some(first):
        client = RawClient(address)
        taken = dict.fromkeys(range(first, partitions, 20), 0)
        for partition in [*taken] * rounds:
            client, done = produce(client, partition)
            taken[partition] += done
        client.close()
        return taken

    with ThreadPoolExecutor(20) as pool:
        taken = {partition: n for some in pool.map(produce_some, range(20)) for partition, n in some.items()}
    return [taken[partition] for partition in range(partitions)]


def assert_log_is_short(broker):
    """Each kind of failure was logged once, with the limit to raise, and no internal error was logged."""
    lines = [line for line in broker.log().splitlines() if "level=INFO" not in line]
    assert 0 < len(lines) <= 5, broker.log()
    assert lines == lines_with(broker, "ulimit -v")
    assert len(lines_with(broker, "loaded again")) <= 1
