"""Producers and read_committed consumers, librdkafka's and Java's, while the broker is killed again and again.

What they did and saw is a history without anomalies. Kafka itself is not asked: it acknowledges what its page cache
holds, and survives `kill -9` as well; what is tested is that a broker of ours does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from compat_tests.brokers import Odradek
from compat_tests.comparison import is_missing
from compat_tests.frames import create_topic
from compat_tests.history import java_clients, librdkafka_clients
from compat_tests.history.anomalies import anomalies_of
from compat_tests.history.operations import Read
from compat_tests.history.recorder import Recorder
from compat_tests.history.workers import (
    PARTITIONS,
    TOPIC,
    PlainWorker,
    ReadWorker,
    TransactionWorker,
    Worker,
    key_of,
)
from compat_tests.java_clients import JavaVm

KILLS = 8
STEPS = 12
"""How many operations of each producer lie between two kills."""


@pytest.fixture
def broker() -> Iterator[Odradek]:
    running = Odradek()
    assert create_topic(running.bootstrap, TOPIC, PARTITIONS) == "NONE"
    yield running
    running.stop()


def workers_of(bootstrap: str, recorder: Recorder, java: JavaVm | None) -> tuple[list[Worker], list[Worker]]:
    """Producers and consumers, of librdkafka and, where there is one, of Java."""
    rd = librdkafka_clients
    producers: list[Worker] = [
        TransactionWorker("rd-txn", recorder, partial(rd.Transactional, bootstrap, "rd-txn")),
        PlainWorker("rd-plain", recorder, partial(rd.Plain, bootstrap)),
    ]
    consumers: list[Worker] = [ReadWorker("rd-read", recorder, partial(rd.Reading, bootstrap))]
    if java is not None:
        transactional = partial(java_clients.Transactional, java, bootstrap, "java-txn")
        producers.append(TransactionWorker("java-txn", recorder, transactional))
        producers.append(PlainWorker("java-plain", recorder, partial(java_clients.Plain, java, bootstrap)))
        consumers.append(ReadWorker("java-read", recorder, partial(java_clients.Reading, java, bootstrap)))
    return producers, consumers


def end_open_transactions(bootstrap: str, producers: list[Worker]) -> None:
    """A producer that takes an id over ends what its predecessor left open."""
    for producer in producers:
        if isinstance(producer, TransactionWorker):
            librdkafka_clients.Transactional(bootstrap, producer.process).close()


def read_everything(bootstrap: str, recorder: Recorder) -> None:
    """One more consumer reads all there is, up to the end of each partition."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    places = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_offsets(places, isolation_level=IsolationLevel.READ_COMMITTED)
    ends = {place.partition: future.result(30).offset for place, future in asked.items()}
    began, reader, reads = recorder.now(), librdkafka_clients.Reading(bootstrap), list[Read]()
    unread = [partition for partition, end in ends.items() if end > 0]
    while unread:
        reads += [Read(key_of(partition), value, offset) for partition, offset, value in reader.poll()]
        unread = [partition for partition in unread if reader.position(partition) < ends[partition]]
    reader.close()
    recorder.note("last", "ok", began, reads=reads)


@pytest.mark.timeout(240)
def test_no_anomalies_under_kill_9(broker: Odradek, tmp_path: Path) -> None:
    recorder = Recorder()
    with ExitStack() as closing:
        java = None
        if not is_missing("Java"):
            java = JavaVm()
            closing.callback(java.close)
        producers, consumers = workers_of(broker.bootstrap, recorder, java)
        for worker in producers + consumers:
            worker.start()
        for kill in range(KILLS + 1):
            for producer in producers:
                recorder.wait_for(producer.process, STEPS * (kill + 1))
            if kill < KILLS:
                broker.crash()
                broker.restart()
        for worker in producers:
            worker.finish()
        end_open_transactions(broker.bootstrap, producers)
        for worker in consumers:
            worker.finish()
        read_everything(broker.bootstrap, recorder)
    history = recorder.history()
    found = anomalies_of(history)
    if found:
        (tmp_path / "history.json").write_text(json.dumps([str(each) for each in history.operations], indent=1))
    assert found == [], f"the history is in {tmp_path}"
