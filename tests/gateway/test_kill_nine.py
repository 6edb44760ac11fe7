"""kill -9 under load, twenty times: all acknowledged records are there, in order, idempotent producers' exactly once.

The clients record what was acknowledged; at the end the log must have it. The lock on a directory and the end on
SIGTERM are tested here as well, since they need processes too.
"""

import random
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from itertools import count

import pytest
from confluent_kafka import Producer
from gateway_brokers import ProcessBroker, environment
from gateway_client import RawClient, assert_serves, batch_of, fetch_request, only, produce_request

from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

KILLS = 20
PARTITIONS = 3
PIPELINED = 4

pytestmark = pytest.mark.core


class Worker(threading.Thread, ABC):
    """Sends requests until stopped; starts again when the broker was killed."""

    def __init__(self, broker: ProcessBroker) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.stopping = threading.Event()
        self.progress = threading.Semaphore(0)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    with RawClient(self.broker.address) as client:
                        self.work(client)
                except (OSError, EOFError):
                    self.stopping.wait(0.02)  # it is being restarted
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failure = error
            self.progress.release(1000)

    @abstractmethod
    def work(self, client: RawClient) -> None:
        """Uses one connection until `stopping` is set, or until the connection breaks."""

    def await_progress(self, steps: int) -> None:
        """Waits for `steps` more acknowledgements."""
        while self.progress.acquire(blocking=False):
            pass
        for _ in range(steps):
            assert self.progress.acquire(timeout=60), f"{self} does not get on"

    def finish(self) -> None:
        self.stopping.set()
        self.join(60)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


def second(number: int) -> bytes:
    """The second value of a batch, long enough to roll segments."""
    return b"%d," % number * 1500


class PlainProducer(Worker):
    """Pipelines records that it sends only once, and records the acknowledged offsets."""

    def __init__(self, broker: ProcessBroker, topic: str) -> None:
        super().__init__(broker)
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        self._numbers = count()

    def work(self, client: RawClient) -> None:
        while not self.stopping.is_set():
            sent = []
            for _ in range(PIPELINED):
                number = next(self._numbers)
                batch = batch_of(b"%d" % number, second(number))
                sent.append((number, client.send(produce_request(self.topic, batch))))
            for number, one in sent:
                answer = only(client.receive(one))
                assert answer.error_code == 0, answer
                self.acknowledged[number] = answer.base_offset
                self.progress.release()

    def check(self, client: RawClient) -> None:
        stored: dict[int, int] = {}
        for header, records in client.fetch_all(self.topic):
            number = int(records[0].value)
            assert number not in stored, f"{number} is there twice"
            assert records[1].value == second(number)
            stored[number] = header.base_offset
        assert list(stored) == sorted(stored)
        assert self.acknowledged.items() <= stored.items()


class Committer(Worker):
    """Commits growing offsets; after each kill it must find at least the acknowledged one."""

    def __init__(self, broker: ProcessBroker, topic: str) -> None:
        super().__init__(broker)
        self.topic = topic
        self.acknowledged = 0

    def work(self, client: RawClient) -> None:
        for offset in count(self.check(client) + 1):
            part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
            topic = OffsetCommitRequestTopic(name=self.topic, partitions=(part,))
            request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=(topic,))
            code = client.call(request).topics[0].partitions[0].error_code
            if code == 0:
                self.acknowledged = offset
                self.progress.release()
            if self.stopping.is_set():
                return

    def check(self, client: RawClient) -> int:
        while True:
            request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
            [group] = client.call(request).groups
            if group.error_code == 0:
                break
        found = group.topics[0].partitions[0].committed_offset if group.topics else 0
        assert found in (self.acknowledged, self.acknowledged + 1)  # the commit in flight may have been stored
        return found


class IdempotentProducer(Worker):
    """librdkafka with idempotence, across all kills: each of its records must be stored exactly once."""

    def __init__(self, broker: ProcessBroker, topic: str) -> None:
        super().__init__(broker)
        self.topic = topic
        self.sent = 0
        self.acknowledged: dict[tuple[int, int], int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{broker.port}",
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "message.timeout.ms": 0,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 10,
                "socket.timeout.ms": 10_000,
                "log_level": 0,
            }
        )

    def work(self, client: RawClient) -> None:
        while not self.stopping.is_set():
            if len(self._producer) < 500:
                self._producer.produce(
                    self.topic, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._delivered
                )
                self.sent += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.05)

    def _delivered(self, error: object, message) -> None:
        assert error is None, error
        self.acknowledged[message.partition(), message.offset()] = int(message.value())
        self.progress.release()

    def check(self, client: RawClient) -> None:
        assert self._producer.flush(60) == 0
        assert len(self.acknowledged) == self.sent
        for partition in range(PARTITIONS):
            stored = [int(value) for value in client.values(self.topic, partition)]
            assert stored == list(range(partition, self.sent, PARTITIONS))
            assert all(self.acknowledged[partition, offset] == number for offset, number in enumerate(stored))


@pytest.mark.timeout(300)
def test_twenty_kills_under_load_lose_nothing_acknowledged(tmp_path):
    chance = random.Random(20)
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("once", partitions=PARTITIONS)
            client.create_topic("plain", segment_bytes="1048576")
            client.create_topic("paged", flush_messages="9223372036854775807")
            found = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)))
            assert found.coordinators[0].error_code == 0
        once, committer = IdempotentProducer(broker, "once"), Committer(broker, "plain")
        producers = [PlainProducer(broker, "plain"), PlainProducer(broker, "paged")]
        workers = [once, committer, *producers]
        for worker in workers:
            worker.start()
        for kill in range(KILLS):
            with RawClient(broker.address) as client:
                client.create_topic(f"topic-{kill}", partitions=1 + kill % 3, retention_ms=f"{1000 + kill}")
            for worker in workers:
                worker.await_progress(chance.randint(1, 25))
            broker.kill()
            broker.start()
        for worker in workers:
            worker.await_progress(1)
        for worker in workers:
            worker.finish()
        with RawClient(broker.address) as client:
            for worker in workers:
                worker.check(client)
            assert [retention_of(client, kill) for kill in range(KILLS)] == [str(1000 + kill) for kill in range(KILLS)]
            for kill in range(KILLS):
                assert client.produce(f"topic-{kill}", batch_of(b"x"), kill % 3).base_offset == 0
        assert "Traceback" not in broker.log()
        assert "level=ERROR" not in broker.log()


def retention_of(client: RawClient, kill: int) -> str:
    resource = DescribeConfigsResource(
        resource_type=2, resource_name=f"topic-{kill}", configuration_keys=("retention.ms",)
    )
    [described] = client.call(DescribeConfigsRequest(resources=(resource,))).results
    assert described.error_code == 0
    return described.configs[0].value


def test_a_second_broker_on_the_same_directory_refuses_to_start(tmp_path):
    with ProcessBroker(tmp_path / "data") as first, RawClient(first.address) as client:
        client.create_topic("t")
        second = ProcessBroker(tmp_path / "data")
        ended = subprocess.run(
            second.command(), capture_output=True, text=True, timeout=60, env=environment(), check=False
        )
        assert ended.returncode == 1
        assert str(tmp_path / "data") in ended.stderr
        assert "in use" in ended.stderr or "lock" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert client.produce("t", batch_of(b"x")).base_offset == 0
        first.kill()
        first.start()  # a killed broker leaves no lock behind


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_with_0(tmp_path, number):
    """No acknowledgement is lost: acknowledged records are stored, and the rest ended with a close, not a reset."""
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t")
        producer = PlainProducer(broker, "t")
        producer.start()
        producer.await_progress(50)
        assert broker.end(number) == 0
        assert "drain timed out" not in broker.log()
        assert "Traceback" not in broker.log()
        broker.start()
        producer.await_progress(1)
        producer.finish()
        with RawClient(broker.address) as client:
            producer.check(client)
        assert_serves(broker.address)


def test_a_second_signal_ends_at_once(tmp_path):
    """Even if a client reads none of its answers and the drain time-out is weeks."""
    with ProcessBroker(tmp_path / "data", "--set", f"odradek.drain.timeout.ms={2**31 - 1}") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("big")
            client.produce("big", batch_of(b"x" * 900_000))
        with RawClient(broker.address, receive_buffer=4096) as stuck:
            for _ in range(40):
                stuck.send(fetch_request("big", [(0, 0)]))
            assert stuck.receive_some(1) == 1
            broker.process.send_signal(signal.SIGTERM)
            while "draining" not in broker.log():
                assert broker.process.poll() is None
            assert broker.terminate() == 128 + signal.SIGINT
        assert "Traceback" not in broker.log()


def test_everything_survives_an_orderly_restart(tmp_path):
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t", partitions=2, retention_ms="7777")
            for part in range(2):
                for n in range(10):
                    assert client.produce("t", batch_of(b"%d" % n), part).base_offset == n
        assert broker.terminate() == 0
        broker.start()
        with RawClient(broker.address) as client:
            for part in range(2):
                assert client.values("t", part) == [b"%d" % n for n in range(10)]
                assert client.produce("t", batch_of(b"10"), part).base_offset == 10
        assert broker.terminate() == 0
