"""Old segments are deleted while the broker runs, on every store; DeleteRecords; deleted records stay deleted."""

import logging
import threading
import time

import pytest
from gateway_brokers import FaultyEnvironment, ThreadBroker, logged
from gateway_client import RawClient, batch_of

from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.opener import open_store
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

EARLIEST = -2
MAX_TIMESTAMP = -3
TOPIC_RESOURCE = 2
SMALL = {"internal_segment_bytes": "2000"}
NEVER = {"log_retention_check_interval_ms": 10**9, "log_initial_task_delay_ms": 10**9}


@pytest.fixture(params=["memory", "lmdb"])
def broker(request, tmp_path):
    storage = "memory://" if request.param == "memory" else f"lmdb://{tmp_path}/data"
    with ThreadBroker(storage, **NEVER) as running:
        yield running


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as connected:
        yield connected


def fill(client, topic, count, *, timestamp_ms=None):
    """One record of about 1,000 bytes per batch: each segment of 2,000 bytes has one."""
    stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    for _ in range(count):
        assert client.produce(topic, batch_of(b"x" * 1000, timestamp_ms=stamp, key=b"k")).error_code == 0


def alter(client, topic, **configs):
    assert altered(client, topic, **configs) == 0


def altered(client, topic, **configs):
    """Returns the error code."""
    changed = tuple(AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items())
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=changed)
    [answer] = client.call(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    return answer.error_code


def delete_records(client, topic, offset, partition=0):
    part = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(part,)),), timeout_ms=1000)
    [answered] = client.call(request).topics
    [result] = answered.partitions
    return ErrorCode(result.error_code), result.low_watermark


def look_after(broker):
    """Starts the periodic retention check of all topics."""
    services = broker.broker.services
    broker.in_trio(lambda: services.retention.wake(list(services.metadata.image.topics_by_name)))


def await_start(client, topic, expected):
    """Waits for the background check; only a failing test waits long."""
    pause = threading.Event()
    for _ in range(500):
        if client.end_offset(topic, timestamp=EARLIEST) == expected:
            return
        pause.wait(0.02)
    assert client.end_offset(topic, timestamp=EARLIEST) == expected


def await_logged(records, level, *words):
    """Waits for a line of the broker's log: unlike a new log start, it says that the deletion is durable."""
    while not logged(records, level, *words):
        threading.Event().wait(0.01)


def truncate(root, topic, offset):
    """Truncates a log of the stopped broker, as a follower does."""
    store = open_store(f"lmdb://{root}/data")
    [key] = [each for each in store.partitions() if each.topic == topic]
    store.open(key, LogPolicy()).truncate(offset)
    store.close()


def segments(root, topic):
    """The names of the segments of a partition 0."""
    return sorted(path.name for path in root.glob(f"data/{topic}-0.*/*.lmdb"))


class TestRetention:
    def test_a_changed_setting_acts_on_a_live_topic(self, broker, client):
        client.create_topic("t", retention_ms="-1", **SMALL)
        fill(client, "t", 6)
        assert client.end_offset("t", timestamp=EARLIEST) == 0
        alter(client, "t", retention_bytes="3200")
        await_start(client, "t", 3)
        assert client.fetch("t", 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert client.fetch("t", 3).log_start_offset == 3
        assert len(client.fetch_all("t", start=3)) == 3

    def test_by_time_the_active_segment_goes_too(self, broker, client):
        client.create_topic("t", retention_ms="-1", **SMALL)
        fill(client, "t", 3, timestamp_ms=1_000_000)
        alter(client, "t", retention_ms="60000")
        await_start(client, "t", 3)
        fill(client, "t", 2)
        assert [header.base_offset for header, _ in client.fetch_all("t", start=3)] == [3, 4]

    def test_compacted_only_is_left_alone(self, broker, client):
        client.create_topic("t", cleanup_policy="compact", retention_ms="1", **SMALL)
        fill(client, "t", 3, timestamp_ms=1_000_000)
        look_after(broker)
        client.create_topic("marker", retention_ms="1", **SMALL)
        fill(client, "marker", 3, timestamp_ms=1_000_000)
        look_after(broker)
        await_start(client, "marker", 3)
        assert client.end_offset("t", timestamp=EARLIEST) == 0


class TestAfterRestart:
    def test_deleted_segments_stay_deleted_and_unused_logs_are_checked(self, tmp_path):
        broker = ThreadBroker(f"lmdb://{tmp_path}/data", **NEVER)
        with broker, RawClient(broker.address) as client:
            client.create_topic("used", retention_bytes="2100", retention_ms="-1", **SMALL)
            client.create_topic("idle", retention_bytes="3200", retention_ms="-1", **SMALL)
            for topic in ("used", "idle"):
                fill(client, topic, 6)
            assert delete_records(client, "used", 2) == (ErrorCode.NONE, 2)
        before = len(list((tmp_path / "data").glob("idle-*/*.lmdb")))
        with broker, RawClient(broker.address) as client:
            assert client.end_offset("used", timestamp=EARLIEST) == 2
            look_after(broker)
            await_start(client, "used", 4)
            await_start(client, "idle", 3)
        assert len(list((tmp_path / "data").glob("idle-*/*.lmdb"))) == before - 3

    def test_deleted_records_that_a_truncation_has_left_are_removed_once(self, tmp_path, broker_log):
        """The log ends at its start, and the active segment contains what is below."""
        broker = ThreadBroker(f"lmdb://{tmp_path}/data", **NEVER)
        with broker, RawClient(broker.address) as client:
            client.create_topic("t", retention_ms="-1")
            fill(client, "t", 3, timestamp_ms=1_000_000)
            assert delete_records(client, "t", 2) == (ErrorCode.NONE, 2)
        truncate(tmp_path, "t", 2)
        with broker, RawClient(broker.address) as client:
            assert client.end_offset("t", timestamp=EARLIEST) == client.end_offset("t") == 2
            alter(client, "t", retention_ms="60000")
            for number in range(1, 4):
                marker = f"u{number}"  # the check of round n+1 begins after the whole check of round n
                client.create_topic(marker, retention_ms="60000")
                fill(client, marker, 1, timestamp_ms=1_000_000)
                look_after(broker)
                await_start(client, marker, 1)
        assert segments(tmp_path, "t") == ["00000000000000000002.lmdb"]
        lines = [record.getMessage() for record in broker_log.records]
        assert [line for line in lines if "deleted old" in line and "partition=t-0" in line] == [
            "deleted old segments partition=t-0 log_start_offset=2"
        ]

    def test_every_log_retention_check_interval_ms(self):
        often = {"log_retention_check_interval_ms": 20, "log_initial_task_delay_ms": 10}
        with ThreadBroker(**often) as broker, RawClient(broker.address) as client:
            client.create_topic("t", retention_ms="60000", **SMALL)
            for end in (3, 6):
                fill(client, "t", 3, timestamp_ms=1_000_000)
                await_start(client, "t", end)

    def test_a_full_disk_does_not_end_the_retention_task(self, broker_log):
        with ThreadBroker(env=FaultyEnvironment, **NEVER) as broker, RawClient(broker.address) as client:
            client.create_topic("t", retention_bytes="1", retention_ms="-1", **SMALL)
            fill(client, "t", 3)
            broker.env.faults.write_error = 1.0
            look_after(broker)
            await_logged(broker_log, logging.WARNING, "retention failed", "partition=t-0")
            broker.env.faults.write_error = 0.0
            assert client.end_offset("t", timestamp=EARLIEST) == 0
            look_after(broker)
            await_start(client, "t", 2)

    def test_the_pause_after_failed_writes_does_not_hold_it_up(self, broker_log):
        """It may make the space that writes need."""
        pausing = {**NEVER, "odradek_log_retry_backoff_ms": 10**9, "odradek_log_retry_backoff_max_ms": 10**9}
        with ThreadBroker(env=FaultyEnvironment, **pausing) as broker, RawClient(broker.address) as client:
            client.create_topic("t", retention_bytes="1", retention_ms="-1", **SMALL)
            fill(client, "t", 3)
            broker.env.faults.write_error = 1.0
            for _ in range(3):
                assert client.produce("t", batch_of(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            broker.env.faults.write_error = 0.0
            assert client.produce("t", batch_of(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            look_after(broker)
            await_logged(broker_log, logging.INFO, "deleted old segments", "partition=t-0", "log_start_offset=2")
            assert client.produce("t", batch_of(b"x")).error_code == 0


class TestDeleteRecords:
    def test_the_log_starts_there(self, client):
        client.create_topic("t", retention_ms="-1", **SMALL)
        fill(client, "t", 5)
        assert delete_records(client, "t", 2) == (ErrorCode.NONE, 2)
        assert delete_records(client, "t", 1) == (ErrorCode.NONE, 2)
        assert client.fetch("t", 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert delete_records(client, "t", -1) == (ErrorCode.NONE, 5)
        assert client.end_offset("t", timestamp=EARLIEST) == client.end_offset("t") == 5

    @pytest.mark.parametrize("timestamp", [0, MAX_TIMESTAMP])
    def test_timestamps_are_found_in_a_log_that_starts_inside_a_batch(self, client, timestamp):
        client.create_topic("t", retention_ms="-1")
        assert client.produce("t", batch_of(b"a", b"b", b"c")).error_code == ErrorCode.NONE
        assert delete_records(client, "t", 1) == (ErrorCode.NONE, 1)
        assert client.end_offset("t", timestamp=timestamp) == 1

    def test_an_offset_that_is_deleted_while_it_is_read_is_out_of_range(self, broker, client, monkeypatch, caplog):
        client.create_topic("t", retention_ms="-1")
        fill(client, "t", 2)
        replica = broker.broker.services.replicas.get("t", 0)
        read = replica.read

        async def delete_and_read(*args):
            await replica.move_log_start(1)
            return await read(*args)

        monkeypatch.setattr(replica, "read", delete_and_read)
        assert client.fetch("t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert "cannot read" not in caplog.text
        assert client.fetch("t", 1).error_code == ErrorCode.NONE

    @pytest.mark.parametrize("offset", [6, -2, 2**62])
    def test_outside_the_log(self, client, offset):
        client.create_topic("t", retention_ms="-1")
        fill(client, "t", 5)
        assert delete_records(client, "t", offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_refusals(self, client):
        client.create_topic("compacted", cleanup_policy="compact")
        assert delete_records(client, "compacted", 0) == (ErrorCode.POLICY_VIOLATION, -1)
        assert delete_records(client, "compacted", 0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert delete_records(client, "none", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    def test_a_failing_disk_is_logged_and_nothing_is_deleted(self):
        with ThreadBroker(env=FaultyEnvironment, **NEVER) as broker, RawClient(broker.address) as client:
            client.create_topic("t", retention_ms="-1")
            fill(client, "t", 3)
            broker.env.faults.write_error = 1.0
            assert delete_records(client, "t", 2) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            broker.env.faults.write_error = 0.0
            assert client.end_offset("t", timestamp=EARLIEST) == 0
