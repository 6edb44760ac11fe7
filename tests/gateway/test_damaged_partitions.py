"""Damaged sealed segments, internal topics and whole topics, while the broker runs and while it is stopped.

One run of the broker damages many partitions, one for each kind of damage, and leaves one partition of each topic
intact.
"""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from damages import DAMAGES, WATCHED, check_log, follow_advice, remove
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of, produce_many
from gateway_groups import commit_error, committed, find
from long_form import rounds

from odradek.coordinator.partitioner import partition_for
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

RUNNING = range(len(DAMAGES))
STOPPED = range(len(DAMAGES), 2 * len(DAMAGES))
WELL = 2 * len(DAMAGES)
COUNT = WELL + 1
BATCHES = 40
SMALL = {"internal_segment_bytes": "20000"}
SETTINGS = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Errors of a coordinator after which clients retry."""


def name_in(partition: int) -> str:
    """A group or transactional id that belongs to this partition of an internal topic."""
    return next(name for name in (f"n{number}" for number in range(10_000)) if partition_for(name, COUNT) == partition)


NAMES = [name_in(partition) for partition in range(COUNT)]


def connection(broker):
    return {"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 0}


def init_error(client, partition):
    request = InitProducerIdRequest(transactional_id=NAMES[partition], transaction_timeout_ms=60_000)
    return client.call(request).error_code


def damage(data: Path, topic: str, partitions: range, segment: int = 0) -> None:
    for partition, how in zip(partitions, DAMAGES, strict=True):
        [directory] = data.glob(f"{topic}-{partition}.*")
        how(sorted(directory.glob("*.lmdb"))[segment])


class Witness:
    """The intact partition of each topic, used with a real client; it must not be affected."""

    def __init__(self, broker: ProcessBroker, topic: str) -> None:
        self.broker, self.topic, self.count, self.sent = broker, topic, 0, []

    def check(self) -> None:
        """Runs a transaction, reads all records ever written, and commits the offset; all must be there."""
        self.count += 1
        value = b"%d" % self.count * 200
        producer = Producer({**connection(self.broker), "transactional.id": NAMES[WELL]})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.topic, value, partition=WELL)
        producer.commit_transaction(30)
        self.sent.append(value)
        consumer = Consumer(
            {**connection(self.broker), "group.id": NAMES[WELL], "check.crcs": True, "enable.auto.commit": False}
        )
        [found] = consumer.committed([TopicPartition(self.topic, WELL)], timeout=30)
        assert found.offset == (self.count - 1 if self.count > 1 else -1001)
        # the other partitions are fetched as well, and these fetches fail
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(COUNT)])
        values = []
        while len(values) < len(self.sent):
            message = consumer.poll(30)
            assert message is not None, "nothing came"
            if message.error() is None and message.partition() == WELL:
                values.append(message.value())
        assert values == self.sent
        consumer.commit(offsets=[TopicPartition(self.topic, WELL, self.count)], asynchronous=False)
        consumer.close()


def fill(client: RawClient) -> None:
    client.create_topic("sealed", COUNT, **SMALL)
    for topic in ("gone-running", "gone-stopped"):
        client.create_topic(topic, 3)
        for partition in range(3):
            assert client.produce(topic, batch_of(b"x"), partition).error_code == 0
    for number in range(BATCHES):
        batch = batch_of(b"%03d" % number * 500)
        answer = client.call(produce_many([("sealed", partition, batch) for partition in range(WELL)]))
        assert {part.error_code for topic in answer.responses for part in topic.partition_responses} == {0}
    while find(client, NAMES[0]):
        continue
    client.call(FindCoordinatorRequest(coordinator_keys=(NAMES[0],), key_type=1))
    for partition in range(WELL):
        assert commit_error(client, NAMES[partition], 7, "sealed") == 0
        assert init_error(client, partition) == 0


def check_refused(client: RawClient, partitions, damaged_offset: int, *, lost: set[int]) -> None:
    """Damaged segments are refused and intact ones served; the partitions in `lost` are offline altogether."""
    for partition in partitions:
        assert client.fetch("sealed", damaged_offset, partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR, partition
        expected = ErrorCode.KAFKA_STORAGE_ERROR if partition in lost else 0
        assert client.produce("sealed", batch_of(b"more"), partition).error_code == expected, partition
        assert client.fetch("sealed", BATCHES - 1, partition).error_code == expected, partition


def check_coordinators_refuse(client: RawClient, partitions) -> None:
    for partition in partitions:
        assert commit_error(client, NAMES[partition], 8, "sealed") in RETRIED, partition
        assert init_error(client, partition) in RETRIED, partition


def check_others(client: RawClient, partitions) -> None:
    for partition in partitions:
        assert client.fetch("sealed", 0, partition).error_code == 0
        assert committed(client, NAMES[partition]) == {("sealed", 0): 7}
        assert init_error(client, partition) == 0


def check_begun_anew(client: RawClient) -> None:
    for partition in range(WELL):
        assert client.produce("sealed", batch_of(b"anew"), partition).base_offset == 0
        assert committed(client, NAMES[partition]) == {}
        assert commit_error(client, NAMES[partition], 9, "sealed") == 0
        assert init_error(client, partition) == 0


INTERNAL = ("__consumer_offsets", "__transaction_state")


@pytest.mark.torture
@pytest.mark.parametrize("turn", range(rounds(1, 5)))
def test_each_kind_of_damage_to_each_kind_of_partition(tmp_path, turn):
    data = tmp_path / "data"
    arguments = [part for name in SETTINGS for part in ("--set", f"{name}={COUNT}")]
    removed = {partition for partition in range(WELL) if DAMAGES[partition % len(DAMAGES)] is remove}
    with ProcessBroker(data, *WATCHED, *arguments, is_imported=True) as broker:
        witness = Witness(broker, "sealed")
        with RawClient(broker.address) as client:
            fill(client)
            witness.check()
            at = sorted(int(path.stem) for path in data.glob("sealed-0.*/*.lmdb"))[turn % 2]
            damage(data, "sealed", RUNNING, segment=turn % 2)
            for topic in INTERNAL:
                damage(data, topic, RUNNING)
            for directory in data.glob("gone-running-*"):
                shutil.rmtree(directory)
            for partition in range(3):
                answered = client.produce("gone-running", batch_of(b"x"), partition)
                assert answered.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            check_refused(client, RUNNING, at, lost=set())
            check_coordinators_refuse(client, RUNNING)
            check_others(client, STOPPED)
            witness.check()
        assert broker.terminate() == 0
        assert "gone-running-2." in broker.log()
        damage(data, "sealed", STOPPED, segment=turn % 2)
        for topic in INTERNAL:
            damage(data, topic, STOPPED)
        for directory in data.glob("gone-stopped-*"):
            shutil.rmtree(directory)
        broker.start()
        with RawClient(broker.address) as client:
            check_refused(client, range(WELL), at, lost=removed)
            check_coordinators_refuse(client, range(WELL))
            for topic in ("gone-running", "gone-stopped"):
                assert [client.produce(topic, batch_of(b"x"), each).base_offset for each in range(3)] == [0, 0, 0]
            witness.check()
        assert broker.terminate() == 0
        for topic in ("sealed", *INTERNAL):
            for partition in range(WELL):
                [directory] = data.glob(f"{topic}-{partition}.*")
                follow_advice(broker.log(), directory, tmp_path / directory.name)
        broker.start()
        with RawClient(broker.address) as client:
            check_begun_anew(client)
            witness.check()
        assert broker.terminate() == 0
        check_log(broker.log())
