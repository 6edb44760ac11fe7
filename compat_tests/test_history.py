"""Producers and read_committed consumers, librdkafka's and Java's, while the broker is killed repeatedly.

Their operations form a history without anomalies. Kafka itself is not tested: it acknowledges data in the page cache,
which also survives `kill -9`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from compat_tests.brokers import Odradek
from compat_tests.comparison import is_missing
from compat_tests.frames import create_topic
from compat_tests.history import java_clients, librdkafka_clients
from compat_tests.history.final import end_open_transactions, read_everything
from compat_tests.history.recorder import Recorder
from compat_tests.history.workers import PlainWorker, ReadWorker, Target, TransactionWorker, Worker
from compat_tests.java_clients import JavaVm
from odradek.gateway.testing.history.checker import judge

TOPIC = "history"
PARTITIONS = 3

KILLS = 8
STEPS = 12
"""The number of operations of each producer between two kills."""


@pytest.fixture
def broker() -> Iterator[Odradek]:
    running = Odradek()
    assert create_topic(running.bootstrap, TOPIC, PARTITIONS) == "NONE"
    yield running
    running.stop()


def workers_of(target: Target, recorder: Recorder, java: JavaVm | None) -> tuple[list[Worker], list[Worker]]:
    """Producers and consumers of librdkafka and, if available, of Java."""
    rd = librdkafka_clients
    producers: list[Worker] = [
        TransactionWorker("rd-txn", recorder, target, partial(rd.Transactional, target, "rd-txn")),
        PlainWorker("rd-plain", recorder, target, partial(rd.Plain, target)),
    ]
    consumers: list[Worker] = [ReadWorker("rd-read", recorder, target, partial(rd.Reading, target))]
    if java is not None:
        transactional = partial(java_clients.Transactional, java, target, "java-txn")
        producers.append(TransactionWorker("java-txn", recorder, target, transactional))
        producers.append(PlainWorker("java-plain", recorder, target, partial(java_clients.Plain, java, target)))
        consumers.append(ReadWorker("java-read", recorder, target, partial(java_clients.Reading, java, target)))
    return producers, consumers


@pytest.mark.timeout(240)
def test_no_anomalies_under_kill_9(broker: Odradek, tmp_path: Path) -> None:
    recorder, target = Recorder(), Target(broker.bootstrap, TOPIC, PARTITIONS)
    with ExitStack() as closing:
        java = None
        if not is_missing("Java"):
            java = JavaVm()
            closing.callback(java.close)
        producers, consumers = workers_of(target, recorder, java)
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
        end_open_transactions(target, [each.process for each in producers if each.is_transactional])
        for worker in consumers:
            worker.finish()
        read_everything(target, recorder)
    history = recorder.history()
    verdict = judge(history)
    if not verdict.is_valid:
        (tmp_path / "history.txt").write_text("\n".join(map(str, history)))
    assert verdict.is_valid, f"{verdict}\nthe history is in {tmp_path}"
