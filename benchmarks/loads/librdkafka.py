"""librdkafka, through confluent-kafka: produce and consume as fast as possible, and latency at a steady rate."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from benchmarks.stats import percentile

BATCH_BYTES = 1_000_000
QUEUE_KBYTES = 64 * 1024
"""Limits the data that are still queued when `duration_s` has passed."""


def produce(bootstrap: str, topic: str, partitions: int, size_bytes: int, duration_s: float) -> dict[str, float]:
    """Produce without keys, acks=all, for a time, and wait for all acknowledgements. Checks the number of records."""
    producer = _producer(bootstrap, linger_ms=5)
    messages = [{"value": os.urandom(size_bytes)} for _ in range(max(1, BATCH_BYTES // size_bytes // 4))]  # noqa: TID251 - a load, no broker
    _wait_for_topic(producer, topic)
    started = time.perf_counter()
    sent = 0
    while time.perf_counter() - started < duration_s:
        queued = producer.produce_batch(topic, messages)
        sent += queued
        producer.poll(0 if queued == len(messages) else 0.002)
    _flush(producer)
    seconds = time.perf_counter() - started
    stored = _stored(bootstrap, topic, partitions)
    if stored != sent:
        raise SystemExit(f"{sent} records were acknowledged, the topic has {stored}")
    return {"records": sent, "seconds": seconds}


def consume(bootstrap: str, topic: str, records: int, within_s: float) -> dict[str, float]:
    """Read a topic with one partition from its start; the time from the first record to the last."""
    consumer = _consumer(bootstrap)
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.perf_counter() + within_s
    first = consumer.consume(1, timeout=within_s)
    started = time.perf_counter()
    seen = len(first)
    while seen < records:
        got = consumer.consume(10_000, timeout=1)
        seen += sum(1 for message in got if message.error() is None)
        if time.perf_counter() > deadline:
            raise SystemExit(f"{seen} of {records} records came within {within_s} s")
    return {"records": seen - 1, "seconds": time.perf_counter() - started}


def latency(bootstrap: str, topic: str, rate: float, duration_s: float) -> dict[str, float]:
    """Milliseconds from `produce` to the consumer's `poll`, at a steady rate, without the first fifth, a warm-up."""
    consumer = _consumer(bootstrap)
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = _producer(bootstrap, linger_ms=0)
    _wait_for_topic(producer, topic)
    total = int(rate * duration_s)
    pacing = threading.Thread(target=_pace, args=(producer, topic, rate, total), daemon=True)
    pacing.start()
    took_ms: list[float] = []
    deadline = time.perf_counter() + duration_s + 20
    while len(took_ms) < total and time.perf_counter() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            took_ms.append((time.perf_counter_ns() - int.from_bytes(message.value()[:8], "big")) / 1e6)
    if len(took_ms) < total:
        raise SystemExit(f"{len(took_ms)} of {total} records came")
    steady = sorted(took_ms[total // 5 :])
    return {"records": total, "p50": percentile(steady, 0.50), "p99": percentile(steady, 0.99)}


def _pace(producer: Producer, topic: str, rate: float, total: int) -> None:
    padding = bytes(92)
    started = time.perf_counter()
    for number in range(total):
        ahead = started + number / rate - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        producer.produce(topic, time.perf_counter_ns().to_bytes(8, "big") + padding)
        producer.poll(0)
    _flush(producer)


def _producer(bootstrap: str, *, linger_ms: int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": linger_ms,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.kbytes": QUEUE_KBYTES,
            "error_cb": _fail_when_fatal,
        }
    )


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",  # the client requires one; with assign() and no commits, the group is never created
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "error_cb": _fail_when_fatal,
        }
    )


def _fail_when_fatal(error: KafkaError) -> None:
    if error.fatal() or error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - the library's public constant
        raise SystemExit(str(error))


def _wait_for_topic(producer: Producer, topic: str) -> None:
    found = producer.list_topics(topic, timeout=10).topics[topic]
    if found.error is not None:
        raise SystemExit(str(found.error))


def _flush(producer: Producer) -> None:
    left = producer.flush(30)
    if left:
        raise SystemExit(f"{left} records were not acknowledged within 30 s")


def _stored(bootstrap: str, topic: str, partitions: int) -> int:
    consumer = _consumer(bootstrap)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=10)[1] for index in range(partitions)]
    consumer.close()
    return sum(ends)


def main(kind: str, arguments: dict[str, Any]) -> None:
    """Run one load and print its figures."""
    print(json.dumps({"produce": produce, "consume": consume, "latency": latency}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
