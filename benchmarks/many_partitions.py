"""Appends with a thousand partitions, next to ten: requests a second must not fall with the number of logs."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import CPU, Case, Effort, Figure, Mode
from benchmarks.loads import Load

FEW, MANY = 10, 1_000
CONNECTIONS = 10


def appends(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Requests a second over 1,000 partitions, how rate and CPU compare with 10, and CPU seconds per 1,000 requests."""
    few, few_cpu = _rate(side, mode, effort, FEW)
    many, cpu = _rate(side, mode, effort, MANY)
    return {"rate": many, "kept": many / few, "cost": cpu / few_cpu, CPU: cpu}


def _rate(side: Side, mode: Mode, effort: Effort, partitions: int) -> tuple[float, float]:
    broker = side.broker
    with broker.topic(partitions, mode) as topic:
        arguments = {"bootstrap": broker.bootstrap, "topic": topic, "partitions": partitions, "size_bytes": 100}
        load = Load("spread", "spread", {**arguments, "connections": CONNECTIONS, "duration_s": effort.duration_s})
        try:
            load.await_line("ready", timeout_s=120)
            before = broker.cpu_seconds()
            load.go_on()
            done = load.result(timeout_s=effort.duration_s + 60)
        finally:
            load.kill()
        cpu_s = broker.cpu_seconds() - before
    return done["requests"] / done["seconds"], cpu_s / (done["requests"] / 1000)


CASES = (
    Case(
        "partitions-1000",
        "10 connections, 100 B a request, 1,000 partitions",
        (
            Figure("rate", "req/s"),
            Figure("kept", "times the rate with 10 partitions (limit 1)"),
            Figure("cost", "times the CPU with 10 partitions", higher_is_better=False),
        ),
        appends,
        quick_modes=(Mode.FSYNC,),
    ),
)
