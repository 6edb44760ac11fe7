"""Consumer groups: the CPU of a thousand idle ones, and the time that a hundred members take to join one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import CPU, Case, Effort, Figure, Mode, NotMeasuredError
from benchmarks.loads import Load, run_load

HEARTBEATS_A_SECOND = 1_000 * 10 / 3
"""1,000 groups of 10 members, each with the clients' default of one every 3 s.

A quick run has fewer members with a shorter interval.
"""
MEMBERS = 10
JOINERS = 100
TOO_LATE = 0.05
_numbers = itertools.count()


def idle(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """CPU in % of a core while all members send heartbeats; the broker's CPU seconds per 1,000 heartbeats."""
    del mode
    broker = side.broker
    groups = 100 if effort.quick else 1_000
    load = Load(
        "groups",
        "idle",
        {
            "bootstrap": broker.bootstrap,
            "prefix": _prefix("idle"),
            "groups": groups,
            "members": MEMBERS,
            "interval_s": groups * MEMBERS / HEARTBEATS_A_SECOND,
            "duration_s": effort.duration_s * 4,
        },
    )
    try:
        load.await_line("ready", timeout_s=300)
        before = broker.cpu_seconds()
        load.go_on()
        load.await_line("done", timeout_s=effort.duration_s * 4 + 60)
        cpu_s = broker.cpu_seconds() - before
        load.go_on()
        done = load.result(timeout_s=60)
    finally:
        load.kill()
    if done["late"] > TOO_LATE:
        raise NotMeasuredError(f"{done['late']:.0%} of the heartbeats went out late: the load could not keep up")
    core = 100 * cpu_s / done["heartbeats"] * HEARTBEATS_A_SECOND
    return {"core": core, "p99": done["p99"], CPU: cpu_s / done["heartbeats"] * 1000}


def join(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Milliseconds from the first JoinGroup until every member has its assignment; CPU seconds per member."""
    del mode
    broker = side.broker
    rounds = 3 if effort.quick else 10
    before = broker.cpu_seconds()
    done = run_load(
        "groups", "join", bootstrap=broker.bootstrap, prefix=_prefix("join"), members=JOINERS, rounds=rounds
    )
    return {"ms": done["ms"], CPU: (broker.cpu_seconds() - before) / (rounds * JOINERS)}


def _prefix(what: str) -> str:
    return f"bench-{what}-{os.getpid()}-{next(_numbers)}"


CASES = (
    Case(
        "idle-groups",
        "1,000 idle groups of 10 members",
        (
            Figure("core", "% of a core", higher_is_better=False),
            Figure("p99", "ms, p99 of a heartbeat", higher_is_better=False),
        ),
        idle,
        modes=(Mode.ANY,),
    ),
    Case(
        "join-100",
        "100 members join a group",
        (Figure("ms", "ms", higher_is_better=False),),
        join,
        modes=(Mode.ANY,),
    ),
)
