"""`odradek serve` over a disk that fails below LMDB, or is full, recovers without a restart."""

import errno
import shutil
import subprocess
import threading
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count

import pytest
from faults import META_BYTES
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, assert_serves, batch_of
from gateway_groups import commit_error, committed, find
from gateway_transactions import Transactional, stable_and_aborted
from test_retention import altered

from odradek.storage_backends.lmdb_segments.reserve import RESERVE_BYTES
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest

RETRIABLE = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_CONTROLLER}
FAST = ("--set", "odradek.log.retry.backoff.max.ms=50")


@pytest.fixture
def broker(tmp_path, faults):
    broker = ProcessBroker(tmp_path / "data", *FAST, is_imported=True)
    broker.start()
    yield broker
    if broker.process is not None:
        assert broker.terminate() == 0
    assert lines(broker, "the event loop was held up") == []


def until_taken(attempt):
    """Retries as a client does while the error is retriable; returns the number of refusals."""
    for refused in count():
        error = attempt()
        if not error:
            return refused
        assert error in RETRIABLE, ErrorCode(error)
    raise AssertionError


def lines(broker, *words):
    return [line for line in broker.log().splitlines() if all(word in line for word in words)]


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "writev"])
def test_one_failed_write_does_not_outlive_its_cause(broker, faults, call):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.create_topic("other")
        assert client.produce("t", batch_of(b"before")).error_code == 0
        faults.fail("/t-0.", calls=[call], error=errno.EIO, times=1)
        assert client.produce("t", batch_of(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert faults.failed == 1
        assert client.produce("other", batch_of(b"served")).error_code == 0
        until_taken(lambda: client.produce("t", batch_of(b"after")).error_code)
        assert client.values("t") == [b"before", b"after"]
    assert len(lines(broker, "commit failed", "t-0")) == 1
    assert len(lines(broker, "loaded again", "t-0")) == 1


def test_a_disk_that_fails_for_long_is_tried_with_back_off_and_logged_twice(broker, faults):
    """Reads and other partitions continue; most requests do not access the failing disk."""
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.create_topic("other")
        client.produce("t", batch_of(b"before"))
        faults.fail("/t-0.", calls=["pwrite"], error=errno.EIO)
        for _ in range(300):
            assert client.produce("t", batch_of(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.values("t") == [b"before"]
        assert client.produce("other", batch_of(b"served")).error_code == 0
        assert faults.failed < 300, "each commit that fails counts twice, and most must not come to that"
        faults.lift()
        until_taken(lambda: client.produce("t", batch_of(b"after")).error_code)
        assert client.values("t") == [b"before", b"after"]
    logged = lines(broker, "t-0")
    assert len([line for line in logged if "commit failed" in line]) == 1
    ended = [line for line in logged if "loaded again" in line]
    assert len(ended) == 1
    assert "refused_attempts=" in ended[0]
    assert len(logged) <= 4, logged


def test_the_metadata_log_recovers(broker, faults):
    with RawClient(broker.address) as client:
        client.create_topic("before")
        client.produce("before", batch_of(b"x"))
        faults.fail("__cluster_metadata", calls=["pwrite"], error=errno.EIO, times=2, below=META_BYTES)
        assert create(client, "t") in RETRIABLE
        assert faults.failed == 2, "the meta page, and what LMDB writes back: it refuses everything then"
        assert client.produce("before", batch_of(b"y")).error_code == 0
        until_taken(lambda: create(client, "t"))
        assert client.produce("t", batch_of(b"z")).error_code == 0
    assert len(lines(broker, "commit failed", "__cluster_metadata")) == 1
    assert len(lines(broker, "loaded again", "__cluster_metadata")) == 1


def test_the_offsets_log_recovers_and_is_read_meanwhile(broker, faults):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        find(client, "g")
        until_taken(lambda: commit_error(client, "g", 1))
        faults.fail("__consumer_offsets", calls=["pwrite"], error=errno.EIO)
        assert commit_error(client, "g", 2) in RETRIABLE
        assert commit_error(client, "g", 3) in RETRIABLE
        assert committed(client, "g") == {("t", 0): 1}
        faults.lift()
        until_taken(lambda: commit_error(client, "g", 4))
        assert committed(client, "g") == {("t", 0): 4}
    assert len(lines(broker, "commit failed", "__consumer_offsets")) == 1


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "writev"])
def test_a_transaction_whose_end_cannot_be_written_ends_when_the_disk_is_well(broker, faults, call, committed):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        producer = Transactional(client, "tx")
        assert producer.add("t", 0) == {0}
        assert producer.write("t", b"in it") == 0
        faults.fail("__transaction_state", calls=[call], error=errno.EIO, times=1)
        first = producer.send_end(committed).error_code
        assert faults.failed == 1
        assert first in RETRIABLE
        until_taken(lambda: end_error(producer, committed))
        producer.settle()
        assert producer.state() == ("CompleteCommit" if committed else "CompleteAbort")
        markers = [header for header, _ in client.fetch_all("t") if header.is_control]
        assert len(markers) == 1
        assert stable_and_aborted(client, "t") == (2, [] if committed else [0])
        assert producer.add("t", 0) == {0}
        assert producer.write("t", b"next") == 0
        assert producer.end(committed=True) == 0
    assert len(lines(broker, "commit failed", "__transaction_state")) == 1
    assert len(lines(broker, "loaded again", "__transaction_state")) == 1


def end_error(producer, committed):
    """Errors after which a client retries count as retriable: the coordinator is loading or writing markers."""
    error = producer.send_end(committed).error_code
    loading = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS}
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error in loading else error


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MB. Skips where mounting is not allowed; the test with the shim covers that case."""
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", directory]
    mounted = subprocess.run(command, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", directory], check=True)


def fill_up(path):
    with path.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    assert not shutil.disk_usage(path).free


VALUES = [b"%d" % number * 100 for number in range(20)]


def store_some(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        find(client, "g")
        for value in VALUES:
            assert client.produce("t", batch_of(value, timestamp_ms=1000)).error_code == 0
        until_taken(lambda: commit_error(client, "g", 7))


def check_reads(broker):
    with RawClient(broker.address) as client:
        assert client.values("t") == VALUES
        assert client.end_offset("t") == len(VALUES)
        assert client.end_offset("t", timestamp=1000) == 0
        assert committed(client, "g") == {("t", 0): 7}


def check_writes(broker):
    with RawClient(broker.address) as client:
        until_taken(lambda: client.produce("t", batch_of(b"after")).error_code)
        until_taken(lambda: commit_error(client, "g", 8))
        until_taken(lambda: create(client, "new"))
        assert client.values("t") == [*VALUES, b"after"]


def create(client, name):
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=-1)
    return client.call(CreateTopicsRequest(topics=(topic,))).topics[0].error_code


@contextmanager
def running(directory):
    broker = ProcessBroker(directory / "data", *FAST, "--set", "offsets.topic.num.partitions=1", is_imported=True)
    broker.start()
    try:
        yield broker
    finally:
        if broker.process is not None:
            broker.kill()


def restarted_without_space(broker, take_space, give_space, allowed):
    store_some(broker)
    assert broker.terminate() == 0
    take_space()
    broker.start()
    check_reads(broker)
    with RawClient(broker.address) as client:
        assert client.produce("t", batch_of(b"x" * 10_000)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert create(client, "small") in allowed
    check_reads(broker)
    give_space()
    check_writes(broker)
    assert broker.terminate() == 0
    broker.start()
    check_writes_are_there(broker)
    assert_serves(broker.address)
    assert broker.terminate() == 0


def check_writes_are_there(broker):
    with RawClient(broker.address) as client:
        assert client.values("t") == [*VALUES, b"after"]
        assert committed(client, "g") == {("t", 0): 8}


def test_after_a_restart_without_space_everything_is_read(small_disk):
    filler = small_disk / "filler"
    allowed = {0, ErrorCode.KAFKA_STORAGE_ERROR}  # a small change may fit into free space of the file
    with running(small_disk) as broker:
        restarted_without_space(broker, lambda: fill_up(filler), filler.unlink, allowed)


def produce_until_full(client, topic):
    while not (error := client.produce(topic, batch_of(b"x" * 100_000, timestamp_ms=1000)).error_code):
        pass
    assert error == ErrorCode.KAFKA_STORAGE_ERROR


def change_metadata(client):
    """More than fits into free pages of the metadata log."""
    for number in range(40):
        value = ",".join([f"0:{number}"] * 500)
        until_taken(partial(altered, client, "other", leader_replication_throttled_replicas=value))


def shorten_retention(client):
    return altered(client, "t", retention_ms="1")


def delete_topic(client):
    request = DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000)
    return client.call(request, version=5).responses[0].error_code


@pytest.mark.parametrize("makes_space", [shorten_retention, delete_topic])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 1 << 20])
def test_space_is_made_on_a_full_disk(small_disk, makes_space, segment_bytes):
    """All of it is taken: the log of the topic, and the metadata log, have no space for a commit left."""
    with running(small_disk) as broker, RawClient(broker.address) as client:
        client.create_topic("other")
        client.create_topic("t", retention_ms="-1", segment_bytes=str(segment_bytes))
        produce_until_full(client, "t")
        fill_up(small_disk / "filler")
        change_metadata(client)
        until_taken(lambda: makes_space(client))
        until_taken(lambda: client.produce("other", batch_of(b"x" * 500_000)).error_code)
        while len(list((small_disk / "data").glob("t-0.*/*.lmdb"))) > 1:
            threading.Event().wait(0.01)
        assert broker.terminate() == 0
        assert shutil.disk_usage(small_disk).free > 5_000_000
        assert (small_disk / "data" / "reserve").stat().st_blocks * 512 == RESERVE_BYTES


def test_after_a_restart_with_every_write_refused_everything_is_read(tmp_path, faults):
    refused = ["write", "pwrite", "writev", "pwritev", "fallocate", "mkdir", "copy"]
    take = partial(faults.fail, f"{tmp_path}/data", calls=refused, error=errno.ENOSPC)
    with running(tmp_path) as broker:
        restarted_without_space(broker, take, faults.lift, {ErrorCode.KAFKA_STORAGE_ERROR})
