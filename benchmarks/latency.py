"""Latency: from producer to consumer at a steady rate, and of a small producer while others send large batches."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import CPU, Case, Effort, Figure, Mode
from benchmarks.loads import Load, run_load

RATE = 1000
LARGE_PRODUCERS = 2
LARGE_RECORDS, LARGE_RECORD_BYTES = 100, 10_000
_HEAD_START_S, _TAIL_S = 0.4, 0.6


def end_to_end(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Milliseconds at 1,000 records of 100 B a second, and the broker's CPU seconds per 1,000 records."""
    broker = side.broker
    with broker.topic(1, mode) as topic:
        before = broker.cpu_seconds()
        done = run_load(
            "librdkafka",
            "latency",
            bootstrap=broker.bootstrap,
            topic=topic,
            rate=RATE,
            duration_s=effort.duration_s * 1.25,
        )
        cpu_s = broker.cpu_seconds() - before
    return {"p50": done["p50"], "p99": done["p99"], CPU: cpu_s / (done["records"] / 1000)}


def beside_large(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Milliseconds for one 100 B record while two producers send batches of 1 MB as fast as they are acknowledged.

    `flood` is the rate of those two, in MB a second.
    """
    broker = side.broker
    with broker.topic(LARGE_PRODUCERS, mode) as large, broker.topic(1, mode) as small:
        flood = Load(
            "raw",
            "flood",
            {
                "bootstrap": broker.bootstrap,
                "topic": large,
                "connections": LARGE_PRODUCERS,
                "records": LARGE_RECORDS,
                "size_bytes": LARGE_RECORD_BYTES,
                "duration_s": _HEAD_START_S + effort.duration_s * 1.2 + _TAIL_S,
            },
        )
        try:
            done = run_load(
                "raw",
                "sync",
                bootstrap=broker.bootstrap,
                topic=small,
                connections=1,
                size_bytes=100,
                duration_s=effort.duration_s,
            )
            flooded = flood.result(60)
        finally:
            flood.kill()
    return {"p50": done["p50"], "p99": done["p99"], "flood": flooded["bytes"] / flooded["seconds"] / 1e6}


_P50, _P99 = Figure("p50", "ms p50", higher_is_better=False), Figure("p99", "ms p99", higher_is_better=False)
_PAGE = (Mode.PAGE_CACHE,)

CASES = (
    Case("latency", "end to end at 1,000 msg/s, librdkafka", (_P50, _P99), end_to_end, quick_modes=_PAGE),
    Case(
        "beside-large",
        "small producer beside two of 1 MB",
        (_P50, _P99, Figure("flood", "MB/s of the large")),
        beside_large,
        quick_modes=_PAGE,
    ),
)
