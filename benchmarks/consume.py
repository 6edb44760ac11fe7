"""Consume 1 KB records as fast as possible, from a topic that is filled before the measurement."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.brokers import RunningBroker, Side
from benchmarks.cases import CPU, Case, Effort, Mode
from benchmarks.java_perf import consumer_perf
from benchmarks.loads import run_load
from benchmarks.produce import MB_A_SECOND

SIZE_BYTES = 1000
BATCH_RECORDS = 63
"""Batches of nearly 64 KB."""
_BATCHES = 6000


def _fill(broker: RunningBroker, topic: str, effort: Effort) -> int:
    filled = run_load(
        "raw",
        "fill",
        timeout_s=120,
        bootstrap=broker.bootstrap,
        topic=topic,
        batches=int(_BATCHES * effort.scale),
        records=BATCH_RECORDS,
        size_bytes=SIZE_BYTES,
    )
    return int(filled["records"])


def librdkafka(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """MB a second from the first record to the last, and the broker's CPU seconds per MB."""
    broker = side.broker
    with broker.topic(1, mode) as topic:
        records = _fill(broker, topic, effort)
        before = broker.cpu_seconds()
        done = run_load("librdkafka", "consume", bootstrap=broker.bootstrap, topic=topic, records=records, within_s=50)
        megabytes = done["records"] * SIZE_BYTES / 1e6
        return {"rate": megabytes / done["seconds"], CPU: (broker.cpu_seconds() - before) / megabytes}


def java(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """MB a second as measured by kafka-consumer-perf-test, and the broker's CPU seconds per MB."""
    broker = side.broker
    with broker.topic(1, mode) as topic:
        records = _fill(broker, topic, effort)
        before = broker.cpu_seconds()
        rate = consumer_perf(broker.bootstrap, topic, records, f"perf-{topic}")
        cpu_s = broker.cpu_seconds() - before
        return {"rate": rate * SIZE_BYTES / 1e6, CPU: cpu_s / (records * SIZE_BYTES / 1e6)}


_MODES = (Mode.PAGE_CACHE,)

CASES = (
    Case("consume", "consume 1 KB, librdkafka", MB_A_SECOND, librdkafka, modes=_MODES),
    Case("consume-java", "consume 1 KB, Java", MB_A_SECOND, java, modes=_MODES),
)
