"""The command: runs the cases, prints the table, and writes the raw figures to a file with `--json`."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    archive,
    cluster,
    cold,
    consume,
    footprint,
    groups,
    latency,
    many_partitions,
    mirror,
    offsets,
    produce,
    restore,
    small_requests,
    spark_source,
    sql_stores,
    transactions,
)
from benchmarks.brokers import EARLIER, Side, both_sides
from benchmarks.cases import KAFKA, Case, Effort
from benchmarks.machine import description
from benchmarks.runner import CaseResult, renew_brokers, run_case, run_rounds, warm_up
from benchmarks.table import Row, as_json, rows_of, show

BEFORE: tuple[Case, ...] = (footprint.START_UP, *cold.CASES, *offsets.CASES)
"""Cases measured before the sides' brokers start."""
LOADS: tuple[Case, ...] = (
    *produce.CASES,
    *consume.CASES,
    *latency.CASES,
    *small_requests.CASES,
    *many_partitions.CASES,
    *transactions.CASES,
    *groups.CASES,
    *restore.CASES,
)
CLUSTERS: tuple[Case, ...] = cluster.CASES
"""Cases with three nodes a side, in rounds of their own, so that the single brokers of other cases do not run."""
AFTER: tuple[Case, ...] = (footprint.MEMORY, *spark_source.CASES, *mirror.CASES, *archive.CASES, *sql_stores.CASES)

FULL = Effort(rounds=5, duration_s=2.0, scale=1.0, budget_s=360)
QUICK = Effort(rounds=1, duration_s=1.0, scale=0.25, quick=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases; returns exit code 1 if a figure could not be measured."""
    options = _options(argv)
    chosen = [case for case in (*BEFORE, *LOADS, *AFTER, *CLUSTERS) if _is_chosen(case, options.only)]
    if not chosen:
        print(f"no such benchmark: {', '.join(options.only)} (see --list)", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{case.name:18} {case.title}" for case in chosen))
        return 0
    effort = _effort(options)
    machine = description()
    print("\n".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    started = time.perf_counter()
    peer = KAFKA if options.against is None else EARLIER
    results = [CaseResult(case) for case in chosen]
    with tempfile.TemporaryDirectory(prefix="odradek-bench-", dir=options.dir, ignore_cleanup_errors=True) as root:
        sides = both_sides(Path(root), options.against)
        say = _progress(started, peer)
        renew = None if options.against is None else partial(renew_brokers, sides, effort, say)
        rounds = _run(results, sides, effort, say, lambda: time.perf_counter() - started, renew)
    rows = [row for result in results for row in rows_of(result)]
    print(f"\nrounds: {rounds}, {time.perf_counter() - started:.0f} s\n", flush=True)
    show(rows, peer)
    if options.json:
        Path(options.json).write_text(json.dumps(_report(machine, rounds, results, rows), indent=1))
    return 1 if any(result.failures for result in results) else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Odradek and a real Kafka, in turns.")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may be repeated; * is a wildcard")
    parser.add_argument("--rounds", type=int, help="the number of rounds (default: up to 5, within 6 minutes)")
    parser.add_argument("--json", metavar="FILE", help="write all figures to this file")
    parser.add_argument("--dir", help="the directory for the brokers' data (default: the system's temporary directory)")
    parser.add_argument(
        "--against", metavar="COMMAND", help="the odradek command of another version, to compare with instead of Kafka"
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks and exit")
    return parser.parse_args(argv)


def _is_chosen(case: Case, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns)


def _effort(options: argparse.Namespace) -> Effort:
    effort = QUICK if options.quick else FULL
    if options.rounds:
        effort = replace(effort, rounds=options.rounds, budget_s=float("inf"))
    return effort


def _progress(started: float, peer: str) -> Callable[[str], None]:
    """Returns the function that reports progress on stderr: on a terminal in one line that changes, else in lines.
    It calls the compared broker `peer`."""
    ending = "\x1b[K\r" if sys.stderr.isatty() else "\n"

    def say(text: str) -> None:
        text = text.replace(KAFKA, peer)
        print(f"{time.perf_counter() - started:4.0f} s  {text}"[:110], end=ending, file=sys.stderr, flush=True)

    return say


def _run(
    results: Sequence[CaseResult],
    sides: dict[str, Side],
    effort: Effort,
    say: Callable[[str], None],
    clock: Callable[[], float],
    renew: Callable[[], None] | None,
) -> int:
    """Fill `results`, and return the number of rounds. Ctrl-C ends the run, and keeps what was measured before.

    `renew` is called between two rounds of the loads of one broker.
    """
    loads = [result for result in results if result.case in LOADS]
    rounds = 0
    try:
        _once(results, BEFORE, sides, effort, say)
        if loads:
            warm_up(sides, effort, say)
            rounds = run_rounds(loads, sides, effort, say, clock, renew)
        _once(results, AFTER, sides, effort, say)
        rounds = max(rounds, _clusters(results, sides, effort, say, clock))
    except KeyboardInterrupt:
        say("interrupted")
    finally:
        for side in sides.values():
            side.stop()
    return rounds


def _clusters(
    results: Sequence[CaseResult],
    sides: dict[str, Side],
    effort: Effort,
    say: Callable[[str], None],
    clock: Callable[[], float],
) -> int:
    """Stop the single brokers, and measure the clusters in rounds; returns the number of rounds."""
    clusters = [result for result in results if result.case in CLUSTERS]
    if not clusters:
        return 0
    for side in sides.values():
        side.stop()
    began = clock()
    return run_rounds(clusters, sides, effort, say, lambda: clock() - began)


def _once(
    results: Sequence[CaseResult],
    cases: Sequence[Case],
    sides: dict[str, Side],
    effort: Effort,
    say: Callable[[str], None],
) -> None:
    """Measure cases outside of the rounds."""
    for result in results:
        if result.case in cases:
            for number in range(1 if effort.quick else result.case.rounds):
                run_case(result, number, sides, effort, say)


def _report(machine: dict[str, str], rounds: int, results: Sequence[CaseResult], rows: Sequence[Row]) -> dict[str, Any]:
    samples = [
        {"case": result.case.name, "mode": mode.value, "side": side, "rounds": [dict(one) for one in series]}
        for result in results
        for (mode, side), series in result.samples.items()
    ]
    failures = [
        {"case": result.case.name, "mode": mode.value, "side": side, "reason": reason}
        for result in results
        for (mode, side), reason in result.failures.items()
    ]
    return {
        "machine": machine,
        "rounds": rounds,
        "rows": as_json(rows),
        "samples": samples,
        "not_measured": failures,
    }


if __name__ == "__main__":
    sys.exit(main())
