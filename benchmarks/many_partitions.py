"""Appends to a thousand partitions and to ten: requests a second must not fall with the number of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from benchmarks.brokers import RunningBroker, Side
from benchmarks.cases import CPU, Case, Effort, Figure, Mode
from benchmarks.loads import Load

FEW, MANY = 10, 1_000
CONNECTIONS = 10
SLICES = 8
"""Both are measured in alternating slices, shorter than most slowdowns of a machine, since their rates are compared."""


def appends(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Requests a second over 1,000 partitions, rate and CPU relative to 10, and CPU seconds per 1,000 requests."""
    broker = side.broker
    with _ready(broker, FEW, mode, effort) as few, _ready(broker, MANY, mode, effort) as many:
        spent = {few: 0.0, many: 0.0}
        for _ in range(SLICES):
            for load in (few, many):
                before = broker.cpu_seconds()
                load.go_on()
                load.await_line("done", timeout_s=effort.duration_s + 60)
                spent[load] += broker.cpu_seconds() - before
        (few_rate, few_cpu), (rate, cpu) = (_figures(load, spent[load]) for load in (few, many))
    return {"rate": rate, "kept": rate / few_rate, "cost": cpu / few_cpu, CPU: cpu}


@contextmanager
def _ready(broker: RunningBroker, partitions: int, mode: Mode, effort: Effort) -> Iterator[Load]:
    """A load over `partitions` partitions, each of which has received a first request."""
    with broker.topic(partitions, mode) as topic:
        arguments = {"bootstrap": broker.bootstrap, "topic": topic, "partitions": partitions, "size_bytes": 100}
        times = {"duration_s": 2 * effort.duration_s, "slices": SLICES}
        load = Load("spread", "spread", {**arguments, **times, "connections": CONNECTIONS})
        try:
            load.await_line("ready", timeout_s=120)
            yield load
        finally:
            load.kill()


def _figures(load: Load, cpu_s: float) -> tuple[float, float]:
    load.go_on()
    done = load.result(timeout_s=60)
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
