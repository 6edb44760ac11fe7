"""Settings that take effect in a running broker, where Kafka also allows them to change at run time."""

import threading

import trio
import trio.lowlevel
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of
from test_handlers_consumer_groups import beat, find, held, join
from test_handlers_topics import alter

from odradek.gateway.config import load_config
from odradek.gateway.maintenance.cleaner import LogCleaner
from odradek.gateway.metadata.metadata_log import metadata_log_config
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.describe_producers import DescribeProducersRequest
from odradek.wire.messages.describe_producers import TopicRequest as ProducersOf

WAIT_LIMIT_S = 30


def producers_of(client, topic):
    request = DescribeProducersRequest(topics=(ProducersOf(name=topic, partition_indexes=(0,)),))
    return client.call(request).topics[0].partitions[0].active_producers


def test_producers_expire_at_the_interval_that_is_set(monkeypatch, broker_log):
    def knows(replica):
        return replica.state is ReplicaState.OPEN and 7 in replica.log.producers

    expired, really = threading.Event(), Replica.expire_producers

    def expire_producers(replica):
        knew = knows(replica)
        really(replica)
        if knew and not knows(replica):
            expired.set()

    monkeypatch.setattr(Replica, "expire_producers", expire_producers)
    settings = {"producer_id_expiration_check_interval_ms": 20, "producer_id_expiration_ms": 1}
    with ThreadBroker(**settings) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
        assert client.produce("t", batch).error_code == 0
        assert expired.wait(WAIT_LIMIT_S), "they expire at another interval"
        assert producers_of(client, "t") == ()


def test_the_assignment_interval_changes_while_groups_run(broker_log):
    with ThreadBroker(group_consumer_assignment_interval_ms=10**9) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        epoch = join(client, "a").member_epoch
        wanted = (CreatePartitionsTopic(name="t", count=3, assignments=None),)
        client.call(CreatePartitionsRequest(topics=wanted, timeout_ms=9000))
        assert beat(client, "a", epoch).assignment is None
        alter(client, "group.consumer.assignment.interval.ms", "0")
        assert held(beat(client, "a", epoch)) == [0, 1, 2]


def test_a_shard_that_is_loaded_later_has_the_changed_settings(broker_log):
    with ThreadBroker(group_consumer_assignment_interval_ms=10**9) as broker, RawClient(broker.address) as client:
        alter(client, "group.consumer.assignment.interval.ms", "0")
        client.create_topic("t")
        assert find(client, "g") == 0
        epoch = join(client, "a").member_epoch
        wanted = (CreatePartitionsTopic(name="t", count=2, assignments=None),)
        client.call(CreatePartitionsRequest(topics=wanted, timeout_ms=9000))
        assert held(beat(client, "a", epoch)) == [0, 1]


def test_the_number_of_cleaner_threads_changes_while_it_runs(monkeypatch, broker_log):
    looks = threading.Semaphore(0)

    async def clean_dirtiest(_: LogCleaner) -> bool:
        looks.release()
        return False

    monkeypatch.setattr(LogCleaner, "clean_dirtiest", clean_dirtiest)
    with ThreadBroker(log_cleaner_backoff_ms=10**9) as broker, RawClient(broker.address) as client:
        cleaner = broker.broker.services.cleaner

        async def workers_are(numbers: set[int]) -> None:
            with trio.fail_after(WAIT_LIMIT_S):
                while set(cleaner.workers) != numbers:
                    await trio.lowlevel.checkpoint()

        for threads, numbers in (("3", {0, 1, 2}), ("1", {0}), ("2", {0, 1})):
            alter(client, "log.cleaner.threads", threads)
            trio.from_thread.run(workers_are, numbers, trio_token=broker.token)
        assert looks.acquire(timeout=WAIT_LIMIT_S)


def test_the_metadata_log_rolls_by_its_settings():
    settings = {"metadata.log.segment.bytes": 8 * 1024 * 1024, "metadata.log.segment.ms": 1234}
    config = metadata_log_config(load_config(overrides=settings, environ={}))
    assert (config.segment_bytes, config.segment_ms) == (8 * 1024 * 1024, 1234)
