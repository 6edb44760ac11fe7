"""Produce as fast as possible: 1 KB, 100 B, and over 16 partitions, with librdkafka and with the Java client."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.brokers import Side
from benchmarks.cases import CPU, Case, Effort, Figure, Mode
from benchmarks.java_perf import producer_perf
from benchmarks.loads import run_load
from benchmarks.machine import ready_memory

MB_A_SECOND = (Figure("rate", "MB/s"),)
_JAVA_BYTES = {Mode.PAGE_CACHE: 80_000_000, Mode.FSYNC: 10_000_000}
"""The bytes that a Java producer sends in one round. Less with fsync, where Kafka syncs each of its small batches."""
_JAVA_MAX_RECORDS = 300_000


def librdkafka(side: Side, mode: Mode, effort: Effort, *, size_bytes: int, partitions: int = 1) -> Mapping[str, float]:
    """MB a second until everything is acknowledged, and the broker's CPU seconds per MB."""
    broker = side.broker
    ready_memory(broker.home)
    with broker.topic(partitions, mode) as topic:
        before = broker.cpu_seconds()
        done = run_load(
            "librdkafka",
            "produce",
            bootstrap=broker.bootstrap,
            topic=topic,
            partitions=partitions,
            size_bytes=size_bytes,
            duration_s=effort.duration_s,
        )
        megabytes = done["records"] * size_bytes / 1e6
        return {"rate": megabytes / done["seconds"], CPU: (broker.cpu_seconds() - before) / megabytes}


def java(side: Side, mode: Mode, effort: Effort, *, size_bytes: int, partitions: int = 1) -> Mapping[str, float]:
    """MB a second as measured by kafka-producer-perf-test, and the broker's CPU seconds per MB."""
    broker = side.broker
    ready_memory(broker.home)
    records = min(_JAVA_MAX_RECORDS, int(_JAVA_BYTES[mode] * effort.scale / size_bytes))
    with broker.topic(partitions, mode) as topic:
        before = broker.cpu_seconds()
        rate = producer_perf(broker.bootstrap, topic, records, size_bytes)
        cpu_s = broker.cpu_seconds() - before
        return {"rate": rate * size_bytes / 1e6, CPU: cpu_s / (records * size_bytes / 1e6)}


_PAGE = (Mode.PAGE_CACHE,)

CASES = (
    Case(
        "produce-1k",
        "produce 1 KB, librdkafka",
        MB_A_SECOND,
        partial(librdkafka, size_bytes=1000),
        as_shipped=True,
    ),
    Case("produce-1k-java", "produce 1 KB, Java", MB_A_SECOND, partial(java, size_bytes=1000), quick_modes=_PAGE),
    Case(
        "produce-100b",
        "produce 100 B, librdkafka",
        MB_A_SECOND,
        partial(librdkafka, size_bytes=100),
        quick_modes=_PAGE,
    ),
    Case("produce-100b-java", "produce 100 B, Java", MB_A_SECOND, partial(java, size_bytes=100), modes=_PAGE),
    Case(
        "produce-16p",
        "produce 1 KB, 16 partitions, librdkafka",
        MB_A_SECOND,
        partial(librdkafka, size_bytes=1000, partitions=16),
        quick_modes=_PAGE,
    ),
    Case(
        "produce-16p-java",
        "produce 1 KB, 16 partitions, Java",
        MB_A_SECOND,
        partial(java, size_bytes=1000, partitions=16),
        modes=_PAGE,
    ),
)
