"""The demo on a part of its flights, and the parts that make it exact."""

import argparse
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from examples.flights import __main__ as demo
from examples.flights.dataset import Flight, flights, totals_of
from examples.flights.member import Member, StateTopic
from examples.flights.totals import PartitionState, Totals
from odradek import TestBroker

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_agrees_although_a_consumer_is_killed(tmp_path):
    command = ["-m", "examples.flights", "--limit", "5000", "--no-spark", "--output", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The group decides which partitions the killed consumer had; the demo must move them to others.
    killed = re.search(r"kill -9 (consumer-\d), which had partitions (\d(?:, \d)*)", done.stdout)
    assert killed, done.stdout
    for partition in killed[2].split(", "):
        assert re.search(rf"partition {partition}: {killed[1]} → consumer-(?!{killed[1][-1]})", done.stdout), (
            done.stdout
        )
    assert "SPARK DID NOT RUN: --no-spark" in done.stdout
    assert "file, group agree on every carrier" in done.stdout
    chart = (tmp_path / "flights.html").read_text()
    assert "5,000 flights from New York" in chart
    assert "JetBlue Airways" in chart


def test_the_demo_fails_when_a_count_is_off(tmp_path):
    options = argparse.Namespace(output=str(tmp_path), bootstrap=None, no_spark=True, limit=3)
    truth = totals_of(flights(100))
    wrong = totals_of(flights(100))
    next(iter(wrong.carriers.values()))[2] += 1  # one minute in a hundred flights
    with ExitStack() as stack:
        run = demo.Demo(options, stack)
        assert demo.conclude(run, options, {"file": truth, "group": truth}, 1.0) == 0
        assert demo.conclude(run, options, {"file": truth, "group": wrong}, 1.0) == 1


def test_the_dataset_is_whole():
    rows = list(flights())
    assert len(rows) == 336_776
    assert sum(row.tail_number is None for row in rows) == 2_512
    assert totals_of(rows).carriers["UA"] == [58_665, 57_782, 205_589]


def test_a_state_survives_its_record():
    state = PartitionState(7, Totals({"UA": [7, 6, -5]}), "someone")
    assert PartitionState.decode(state.encode()) == state


class Bench:
    """One partition of flights, and members that the test polls, instead of processes."""

    def __init__(self, broker: TestBroker, topic: str) -> None:
        self.bootstrap, self.topic, self.state_topic = broker.bootstrap, topic, f"{topic}-state"
        broker.create_topic(self.state_topic)

    def produce(self, rows: list[Flight]) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        for row in rows:
            producer.send(self.topic, value=row.value)
        producer.close()

    def member(self, name: str) -> Member:
        return Member(self.bootstrap, self.topic, self.state_topic, name)

    def stored(self) -> PartitionState:
        store = StateTopic(self.bootstrap, self.state_topic)
        try:
            return store.load(0)
        finally:
            store.close()

    def read(self, offset: int, count: int) -> list:
        partition = TopicPartition(self.topic, 0)
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        records: list = []
        while len(records) < count:
            records += consumer.poll(timeout_ms=1_000, max_records=count - len(records)).get(partition, [])
        consumer.close()
        return records


@pytest.fixture
def bench(kafka_broker, kafka_topic):
    return Bench(kafka_broker, kafka_topic)


def test_work_that_was_not_written_down_is_done_again_once(bench):
    rows = list(flights(30))
    bench.produce(rows)
    partition = TopicPartition(bench.topic, 0)
    killed = bench.member("killed")
    killed.count(partition, bench.read(0, 10))
    killed.checkpoint()
    killed.count(partition, bench.read(10, 5))  # these five are lost: they were only in memory
    killed.close()

    heir = bench.member("heir")
    heir.count(partition, bench.read(10, 20))
    heir.checkpoint()
    heir.close()
    assert bench.stored() == PartitionState(30, totals_of(rows), "heir")


def test_records_that_do_not_follow_the_written_state_are_not_counted(bench):
    rows = list(flights(20))
    bench.produce(rows)
    partition = TopicPartition(bench.topic, 0)
    member = bench.member("member")
    # One long poll: kafka-python 3.0.12 drops a generation that completes between two polls if the rebalance came from
    # the topic's metadata and not from the group. Short polls sometimes cause that, with a real Kafka as well.
    assert member.consumer.poll(timeout_ms=30_000, max_records=1)
    member.count(partition, bench.read(5, 5))  # the group's committed offset is ahead of the state
    assert member.consumer.position(partition) == 0
    member.count(partition, bench.read(0, 20))
    member.checkpoint()
    member.close()
    assert bench.stored().totals == totals_of(rows)
