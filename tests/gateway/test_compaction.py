"""Compaction in a running broker: the remaining records, on every store, after restarts, failures and kill -9."""

import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
import trio
from gateway_brokers import FaultyEnvironment, ProcessBroker, ThreadBroker, internal_errors, logged
from gateway_client import RawClient, batch_of
from test_retention import SMALL, alter, await_start

from odradek.gateway.maintenance import cleaning_pass
from odradek.gateway.replication.assignment import Assignment
from odradek.partitions.compaction import plan as compaction_plan
from odradek.partitions.results import EpochEnd
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.crc import crc32c

OFFSETS = "__consumer_offsets"
SMALL_STEPS = {"log_cleaner_io_buffer_size": 3000, "log_retention_check_interval_ms": 10**9}
EAGER = {"log_cleaner_backoff_ms": 20, **SMALL_STEPS}
ON_DEMAND = {"log_cleaner_enable": False, **SMALL_STEPS}
"""Only `clean` cleans: a worker that begins late would otherwise have the log when the test calls it."""
RETRIED = ON_DEMAND | {"log_cleaner_backoff_ms": 1}
"""A log whose cleaning failed is tried again after short pauses."""
WOKEN = {"log_cleaner_backoff_ms": 10**9, **SMALL_STEPS}
"""A worker cleans at the start and when settings change."""
KEYED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0", "retention_ms": "-1", **SMALL}


@pytest.fixture(params=["memory", "lmdb"])
def storage(request, tmp_path):
    return "memory://" if request.param == "memory" else f"lmdb://{tmp_path}/data"


@pytest.fixture
def broker(storage, broker_log):
    with ThreadBroker(storage, **ON_DEMAND) as running:
        yield running


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as connected:
        yield connected


def put(client, topic, *keys, value=b"x" * 1000):
    """One record per batch and, with the value of 1,000 bytes, one batch per segment."""
    for key in keys:
        stamp = time.time_ns() // 1_000_000
        batch = build_batch([SimpleRecord(key, value, stamp)])
        assert client.produce(topic, batch).error_code == 0


def offsets(client, topic, partition=0):
    start = client.end_offset(topic, partition, timestamp=-2)
    return [record.offset for _, records in client.fetch_all(topic, partition, start) for record in records]


def clean(broker, rounds=1000):
    """Cleans all logs that are due, and waits until done."""

    async def clean_all():
        for _ in range(rounds):
            if not await broker.broker.services.cleaner.clean_dirtiest():
                return

    trio.from_thread.run(clean_all, trio_token=broker.token)


def clean_until(broker, client, topic, expected):
    """Cleans until a log has no other offsets, also if it has to be tried again; only a failing test waits long."""
    pause = threading.Event()
    for _ in range(600):
        clean(broker)
        if offsets(client, topic) == expected:
            return
        pause.wait(0.02)
    assert offsets(client, topic) == expected


def await_offsets(client, topic, expected):
    """Waits for the background cleaner; only a failing test waits long."""
    pause = threading.Event()
    for _ in range(600):
        if offsets(client, topic) == expected:
            return
        pause.wait(0.02)
    assert offsets(client, topic) == expected


class TestCleaning:
    def test_sealed_segments_keep_the_newest_of_each_key(self, broker, client):
        client.create_topic("t", **KEYED)
        put(client, "t", *[b"a", b"b"] * 5, b"c", b"a", b"a")
        clean(broker)
        assert offsets(client, "t") == [9, 10, 11, 12]
        put(client, "t", b"b", b"d")
        clean(broker)
        assert offsets(client, "t") == [10, 12, 13, 14]
        assert client.end_offset("t") == 15
        assert client.end_offset("t", timestamp=-2) == 0
        assert client.fetch("t", 0).error_code == 0

    def test_tombstones_go_and_take_their_keys_with_them(self, broker, client):
        client.create_topic("t", delete_retention_ms="0", **KEYED)
        put(client, "t", b"a", b"b")
        put(client, "t", b"a", value=None)
        put(client, "t", *[b"c"] * 4)
        clean(broker)
        assert offsets(client, "t") == [1, 2, 5, 6]
        put(client, "t", b"d", b"e")
        clean(broker)
        assert offsets(client, "t") == [1, 6, 7, 8]

    def test_compacted_and_deleted(self, broker, client):
        client.create_topic("t", **(KEYED | {"cleanup_policy": "compact,delete"}))
        put(client, "t", b"a", b"b", b"a", b"c", b"d")
        clean(broker)
        assert offsets(client, "t") == [1, 2, 3, 4]
        alter(client, "t", retention_bytes="1000")
        await_start(client, "t", 4)
        assert offsets(client, "t") == [4]

    @pytest.mark.parametrize("rate", ["0", "-1", "NaN"])
    def test_a_rate_that_is_no_limit(self, rate, broker_log):
        settings = {"log_cleaner_io_max_bytes_per_second": rate, "log_cleaner_io_buffer_load_factor": "0"}
        with ThreadBroker(**ON_DEMAND, **settings) as broker, RawClient(broker.address) as client:
            client.create_topic("t", **KEYED)
            put(client, "t", b"a", b"b", b"a", b"c", b"d")
            clean(broker)
            assert offsets(client, "t") == [1, 2, 3, 4]

    @pytest.mark.parametrize("step", ["plan", "pass"])
    def test_a_defect_concerns_one_log(self, broker, client, broker_log, monkeypatch, step):
        def planned(segments, *, plan=compaction_plan.plan_cleaning, **given):
            assert step != "plan" or len(segments) != 6
            return plan(segments, **given)

        def cleaning_of(replica, *given, make=cleaning_pass.CleaningPass):
            assert step != "pass" or replica.key.topic != "t"
            return make(replica, *given)

        monkeypatch.setattr(compaction_plan, "plan_cleaning", planned)
        monkeypatch.setattr(cleaning_pass, "CleaningPass", cleaning_of)
        client.create_topic("t", **KEYED)
        client.create_topic("u", **KEYED)
        put(client, "t", *[b"a"] * 6)
        put(client, "u", *[b"a"] * 4)
        clean(broker)  # ends with the failure
        clean(broker)
        assert offsets(client, "t") == [0, 1, 2, 3, 4, 5]
        assert offsets(client, "u") == [2, 3]
        assert [text for text in internal_errors(broker_log.records) if "partition=t-0" in text]
        broker_log.clear()
        clean(broker)
        assert not logged(broker_log, logging.ERROR, "because of a defect")

    def test_a_producers_retry_is_still_known(self, broker, client):
        client.create_topic("t", **KEYED)
        identity = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)).producer_id
        stamp = time.time_ns() // 1_000_000
        record = SimpleRecord(b"a", b"x" * 1000, stamp)
        sent = [
            build_batch([record], producer_id=identity, producer_epoch=0, base_sequence=sequence)
            for sequence in range(3)
        ]
        for batch in sent:
            assert client.produce("t", batch).error_code == 0
        put(client, "t", b"a", b"a")
        clean(broker)
        assert [header.base_offset for header, _ in client.fetch_all("t")] == [2, 3, 4]
        assert client.produce("t", sent[2]).base_offset == 2
        assert offsets(client, "t") == [3, 4]

    @pytest.mark.core
    def test_many_segments_in_small_steps_while_others_write(self, broker, client):
        client.create_topic("t", **KEYED)
        random = Random(3)
        put(client, "t", *[b"%d" % random.randint(0, 9) for _ in range(60)])
        done = threading.Event()
        with RawClient(broker.address) as other, ThreadPoolExecutor(1) as pool:
            writing = pool.submit(self._write_until, other, done)
            clean(broker, rounds=3)
            done.set()
            written = writing.result()
        clean(broker)
        left = [record.key for _, records in client.fetch_all("t") for record in records]
        assert client.end_offset("t") == 60 + written
        assert set(left) == {b"%d" % key for key in range(10)}
        assert len(left) <= 11

    def _write_until(self, client, done):
        count = 0
        while not done.is_set() or not count:
            put(client, "t", b"%d" % (count % 10))
            count += 1
        return count


class TestWoken:
    @pytest.fixture
    def broker(self, storage, broker_log):
        with ThreadBroker(storage, **WOKEN) as running:
            yield running

    def test_changed_settings_act_on_a_live_topic(self, client):
        client.create_topic("t", retention_ms="-1", **SMALL)
        put(client, "t", *[b"a"] * 5)
        alter(client, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        await_offsets(client, "t", [3, 4])

    def test_not_before_min_compaction_lag_ms(self, broker, client):
        client.create_topic("t", **KEYED, min_compaction_lag_ms="100000000")
        put(client, "t", *[b"a"] * 5)
        clean(broker)
        assert offsets(client, "t") == [0, 1, 2, 3, 4]
        alter(client, "t", min_compaction_lag_ms="0")
        await_offsets(client, "t", [3, 4])

    def test_what_is_not_dirty_enough_waits_but_not_for_ever(self, broker, client):
        client.create_topic("t", **KEYED)
        put(client, "t", *[b"a"] * 5)
        alter(client, "t", min_cleanable_dirty_ratio="0.01")
        await_offsets(client, "t", [3, 4])
        alter(client, "t", min_cleanable_dirty_ratio="0.7")
        put(client, "t", b"a", b"a")
        clean(broker)
        assert offsets(client, "t") == [3, 4, 5, 6]
        alter(client, "t", max_compaction_lag_ms="1")
        await_offsets(client, "t", [5, 6])

    def test_records_that_cannot_be_decoded_are_left_alone(self, client, broker_log):
        client.create_topic("t", retention_ms="-1", **SMALL)
        garbage = bytearray(batch_of(b"x" * 1000, key=b"k"))
        garbage[61:80] = b"\xff" * 19
        garbage[17:21] = crc32c(bytes(garbage[21:])).to_bytes(4, "big")
        assert client.produce("t", bytes(garbage)).error_code == 0
        put(client, "t", *[b"a"] * 4)
        alter(client, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        for _ in range(500):
            if logged(broker_log, logging.ERROR, "cannot be compacted", "partition=t-0"):
                break
            threading.Event().wait(0.02)
        assert logged(broker_log, logging.ERROR, "cannot be compacted", "partition=t-0")
        client.create_topic("other", **KEYED)
        put(client, "other", *[b"a"] * 5)
        alter(client, "other", min_cleanable_dirty_ratio="0.1")
        await_offsets(client, "other", [3, 4])
        assert client.fetch("t", 0).error_code == 0


class TestInternalTopics:
    def test_many_commits_leave_a_small_topic_and_the_last_offsets(self, tmp_path):
        broker = ThreadBroker(f"lmdb://{tmp_path}/data", offsets_topic_num_partitions=1, **EAGER)
        with broker, RawClient(broker.address) as client:
            client.create_topic("t", 3)
            while client.call(FindCoordinatorRequest(coordinator_keys=("g",))).coordinators[0].error_code:
                threading.Event().wait(0.02)
            alter(client, OFFSETS, internal_segment_bytes="20000", min_cleanable_dirty_ratio="0.1")
            for number in range(1500):
                part = OffsetCommitRequestPartition(partition_index=number % 3, committed_offset=number)
                topics = (OffsetCommitRequestTopic(name="t", partitions=(part,)),)
                answer = client.call(OffsetCommitRequest(group_id="g", topics=topics))
                assert answer.topics[0].partitions[0].error_code == 0
            pause = threading.Event()
            for _ in range(500):
                if len(offsets(client, OFFSETS)) < 300:
                    break
                pause.wait(0.02)
            assert len(offsets(client, OFFSETS)) < 300
        with broker, RawClient(broker.address) as client:
            for _ in range(500):
                answer = client.call(OffsetFetchRequest(group_id="g", topics=None), 7)
                if not answer.error_code:
                    break
                pause.wait(0.02)
            found = {part.partition_index: part.committed_offset for part in answer.topics[0].partitions}
            assert found == {0: 1497, 1: 1498, 2: 1499}


class TestFailures:
    @pytest.mark.parametrize("fault", ["write_error", "read_error"])
    def test_a_failing_disk_only_delays_it(self, fault, broker_log):
        with ThreadBroker(env=FaultyEnvironment, **RETRIED) as broker, RawClient(broker.address) as client:
            client.create_topic("t", **KEYED)
            put(client, "t", *[b"a"] * 5)
            setattr(broker.env.faults, fault, 1.0)
            clean(broker)
            setattr(broker.env.faults, fault, 0.0)
            assert logged(broker_log, logging.WARNING, "cleaning failed", "partition=t-0")
            assert offsets(client, "t") == [0, 1, 2, 3, 4]
            clean_until(broker, client, "t", [3, 4])

    def test_a_damaged_log_does_not_keep_the_others_from_being_cleaned(self, tmp_path, broker_log):
        broker = ThreadBroker(f"lmdb://{tmp_path}/data", **ON_DEMAND)
        with broker, RawClient(broker.address) as client:
            for topic in ("a", "b", "z"):
                client.create_topic(topic, **KEYED)
                put(client, topic, *[b"a"] * 5)  # equally dirty, so they are cleaned in this order
            [directory] = (tmp_path / "data").glob("b-0.*")
            os.truncate(sorted(directory.glob("*.lmdb"))[1], 8192)
            clean(broker)
            assert logged(broker_log, logging.WARNING, "cleaning failed", "partition=b-0")
            assert offsets(client, "a") == offsets(client, "z") == [3, 4]

    @pytest.mark.parametrize("seed", range(4))
    def test_a_disk_that_fails_now_and_then(self, seed, broker_log):
        with ThreadBroker(env=FaultyEnvironment, **RETRIED) as broker, RawClient(broker.address) as client:
            client.create_topic("t", **KEYED)
            put(client, "t", *[b"%d" % (number % 7) for number in range(40)])
            broker.env.faults.write_error = 0.05
            for _ in range(10):
                clean(broker)
            broker.env.faults.write_error = 0.0
            clean_until(broker, client, "t", [*range(32, 40)])

    def test_kill_9_at_any_time_loses_no_newest_record(self, tmp_path):
        """Five times over the same directory, under a load that is compacted continuously."""
        settings = [f"{name.replace('_', '.')}={value}" for name, value in EAGER.items()]
        arguments = [word for text in [*settings, "log.cleaner.backoff.ms=1"] for word in ("--set", text)]
        random, sent = Random(5), {}
        process = ProcessBroker(tmp_path / "data", *arguments)
        for turn in range(5):
            with process:
                with RawClient(process.address) as client:
                    if not turn:
                        client.create_topic("t", **(KEYED | {"flush_messages": "1"}))
                    found = {r.key: r.value for _, records in client.fetch_all("t") for r in records}
                    assert found == sent
                    for number in range(random.randint(30, 150)):
                        key, value = b"k%d" % random.randint(0, 9), b"%d-%d-" % (turn, number) + b"x" * 700
                        put(client, "t", key, value=value)
                        sent[key] = value
                process.kill()
        with process, RawClient(process.address) as client:
            left = [r for _, records in client.fetch_all("t") for r in records]
            assert {record.key: record.value for record in left} == sent
            assert len(left) < client.end_offset("t") / 2


def test_a_log_that_is_truncated_during_a_pass_does_not_count_as_clean_beyond_its_end(broker, client, monkeypatch):
    """A follower of a leader from an unclean election; records that are written there later must be indexed."""
    client.create_topic("t", 1, **KEYED)
    put(client, "t", b"k", b"a", b"b", b"k", b"c")
    replica = broker.broker.services.replicas.get("t", 0)
    broker.in_trio(lambda: replica.assign(Assignment(5, 2, leads=False)))
    view, views = replica.view, []

    async def truncating_view():
        views.append(await view())
        if len(views) == 1:
            return views[0]  # to plan the pass
        monkeypatch.undo()
        assert await replica.truncate(replica.follower.position, EpochEnd(0, 2))
        return await view()

    monkeypatch.setattr(replica, "view", truncating_view)
    clean(broker, rounds=1)
    broker.in_trio(lambda: replica.assign(Assignment(6, 1, leads=True)))
    assert broker.in_trio(lambda: (replica.log.clean_offset, replica.log.log_end_offset)) == (0, 2)
    put(client, "t", b"k", b"a", b"d")
    clean(broker)
    assert offsets(client, "t") == [2, 3, 4]
