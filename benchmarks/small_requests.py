"""Many small synchronous producers: one record a request, and the next request after the acknowledgement."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.brokers import Side
from benchmarks.cases import CPU, Case, Effort, Figure, Mode
from benchmarks.loads import run_load

CONNECTIONS = 16
MANY_CONNECTIONS = 100


def synchronous(side: Side, mode: Mode, effort: Effort, *, connections: int, size_bytes: int) -> Mapping[str, float]:
    """Requests a second over all connections, each on its own partition, and the broker's CPU seconds per 1,000."""
    broker = side.broker
    with broker.topic(connections, mode) as topic:
        before = broker.cpu_seconds()
        done = run_load(
            "raw",
            "sync",
            bootstrap=broker.bootstrap,
            topic=topic,
            connections=connections,
            size_bytes=size_bytes,
            duration_s=effort.duration_s * 0.75,
        )
        cpu_s = broker.cpu_seconds() - before
    return {"rate": done["requests"] / done["seconds"], CPU: cpu_s / (done["all_requests"] / 1000)}


_RATE = (Figure("rate", "req/s"),)
_FSYNC = (Mode.FSYNC,)

CASES = (
    Case(
        "sync-16x100b",
        "16 connections, 100 B a request",
        _RATE,
        partial(synchronous, connections=CONNECTIONS, size_bytes=100),
        as_shipped=True,
    ),
    Case(
        "sync-100x100b",
        "100 connections, 100 B a request",
        _RATE,
        partial(synchronous, connections=MANY_CONNECTIONS, size_bytes=100),
        quick_modes=(Mode.PAGE_CACHE,),
    ),
    Case(
        "sync-16x16k",
        "16 connections, 16 KB a request",
        _RATE,
        partial(synchronous, connections=CONNECTIONS, size_bytes=16_000),
        quick_modes=_FSYNC,
    ),
    Case(
        "sync-1x16k",
        "1 connection, 16 KB a request",
        _RATE,
        partial(synchronous, connections=1, size_bytes=16_000),
        modes=_FSYNC,
    ),
)
