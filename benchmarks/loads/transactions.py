"""One transactional producer of librdkafka: transactions with one record to each partition, one after the other."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from benchmarks.stats import percentile

WARM_UP = 5
TIMEOUT_S = 30


def commit(bootstrap: str, topic: str, partitions: int, transactional_id: str, duration_s: float) -> dict[str, float]:
    """Medians in ms until the end of the commit: from the begin, and from the last acknowledgement of a record."""
    quiet = logging.getLogger("benchmarks.transactions")
    quiet.addHandler(logging.NullHandler())
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    producer = Producer(settings, logger=quiet)
    producer.init_transactions(TIMEOUT_S)
    for _ in range(WARM_UP):
        _transaction(producer, topic, partitions)
    took: list[tuple[float, float]] = []
    started = time.perf_counter()
    while time.perf_counter() - started < duration_s:
        took.append(_transaction(producer, topic, partitions))
    return {
        "transactions": len(took) + WARM_UP,
        "whole": percentile(sorted(whole for whole, _ in took), 0.5) * 1000,
        "commit": percentile(sorted(commit for _, commit in took), 0.5) * 1000,
    }


def _transaction(producer: Producer, topic: str, partitions: int) -> tuple[float, float]:
    began = time.perf_counter()
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(topic, b"x" * 100, partition=partition, on_delivery=_delivered)
    if producer.flush(TIMEOUT_S):
        raise SystemExit(f"not all records were acknowledged within {TIMEOUT_S} s")
    stored = time.perf_counter()
    try:
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException as error:
        raise SystemExit(f"the commit failed: {error}") from error
    ended = time.perf_counter()
    return ended - began, ended - stored


def _delivered(error: KafkaError | None, _message: object) -> None:
    if error is not None:
        raise SystemExit(f"a record was not stored: {error}")


def main(kind: str, arguments: dict[str, Any]) -> None:
    """Run one load and print its figures."""
    print(json.dumps({"commit": commit}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
