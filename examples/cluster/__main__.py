"""Runs the demo: three brokers, a load, the leader killed and started again, and an audit of every record.

Exit code 1 if a record was lost, duplicated or out of order, or if partitions got no new leader.
"""

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import odradek
from examples.cluster.chart import write_chart
from examples.cluster.load import Sends, consume, produce
from odradek.gateway.testing.cluster import TestCluster
from odradek.gateway.testing.history.anomalies import Anomaly
from odradek.gateway.testing.history.checker import judge
from odradek.gateway.testing.history.operations import Operation, Sent

TOPIC = "readings"
PARTITIONS = 3
BROKERS = 3
LOST = Anomaly.UNSEEN
DOUBLED = frozenset({Anomaly.DUPLICATE, Anomaly.INCONSISTENT_OFFSETS})


class Demo:
    """One run; `events` are the times and descriptions of events, for the plot."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.console = Console()
        self.options = options
        self.events: list[tuple[float, str]] = []

    def say(self, text: str) -> None:
        """Print a line on the terminal."""
        self.console.print(f"[bold cyan]●[/] {text}", highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a line, and mark the event in the plot."""
        self.events.append((time.perf_counter(), text))
        self.say(text)

    def run(self) -> int:
        """Run the demo; returns the exit code."""
        began = time.perf_counter()
        with odradek.cluster(brokers=BROKERS, links=False, quick=False) as cluster:
            took = time.perf_counter() - began
            self.say(f"three brokers serve after {took:.1f} s at {cluster.bootstrap}; each record goes to all of them")
            cluster.create_topic(TOPIC, partitions=PARTITIONS)
            began = time.perf_counter()
            sends, history, read = self._under_load(cluster)
        return self.audit(began, sends, history, read)

    def _under_load(self, cluster: TestCluster) -> tuple[list[Sends], list[Operation], list[float]]:
        stop_sending, stop_reading = threading.Event(), threading.Event()
        ends: dict[int, int] = {}
        with ThreadPoolExecutor(PARTITIONS + 1) as pool:
            reading = pool.submit(consume, cluster.bootstrap, TOPIC, PARTITIONS, stop_reading, ends)
            rate = self.options.rate / PARTITIONS
            sending = [
                pool.submit(produce, cluster.bootstrap, TOPIC, index, rate, stop_sending) for index in range(PARTITIONS)
            ]
            try:
                self._kill_and_restart(cluster)
            finally:
                stop_sending.set()
                sends = [each.result() for each in sending]
                ends.update(_ends(sends))
                stop_reading.set()
            history, read = reading.result()
        return sends, history, read

    def _kill_and_restart(self, cluster: TestCluster) -> None:
        before = self._leaders(cluster)
        self.say(f"leaders of the partitions: {before}")
        self._wait("load before the fault", self.options.seconds)
        victim = before[0]
        cluster.kill(victim)
        self.note(f"kill -9 of broker {victim}")
        for index in [each for each, leader in enumerate(before) if leader == victim]:
            leader = cluster.leader(TOPIC, index, not_broker=victim)
            self.note(f"broker {leader} leads partition {index}")
        self._wait("load on two brokers", self.options.seconds)
        cluster.restart(victim)
        self.note(f"broker {victim} is back")
        self._wait("load on three brokers", self.options.seconds)
        self.say(f"leaders of the partitions: {self._leaders(cluster)}")

    @staticmethod
    def _leaders(cluster: TestCluster) -> list[int]:
        return [cluster.leader(TOPIC, index) for index in range(PARTITIONS)]

    def _wait(self, what: str, seconds: float) -> None:
        with Progress(console=self.console, transient=True) as progress:
            for _ in progress.track(range(20), description=what):
                time.sleep(seconds / 20)

    def audit(self, began: float, sends: list[Sends], history: list[Operation], read: list[float]) -> int:
        operations = [each for sent in sends for each in sent.history] + history
        verdict = judge(sorted(operations, key=lambda each: each.began))
        found = [finding.anomaly for finding in verdict.errors]
        lost, doubled = found.count(LOST), sum(each in DOUBLED for each in found)
        acknowledged = sorted(each for sent in sends for each in sent.acknowledged)
        out = sum(each not in DOUBLED and each not in (LOST, Anomaly.LOST_WRITE) for each in found)
        gap = max([_longest_gap(sent) for sent in sends])
        chart = Path(self.options.output) / "cluster.png"
        chart.parent.mkdir(parents=True, exist_ok=True)
        write_chart(chart, acknowledged, read, self.events, began)
        self.say(f"{len(acknowledged):,} records acknowledged, {len(read):,} read")
        self.say(f"the longest time without an acknowledgement of a partition: {gap:.1f} s; a plot is in {chart}")
        failures = [failure for sent in sends for failure in sent.failures]
        for problem in [*failures[:5], *map(str, verdict.errors[:20])]:
            self.console.print(f"[red]{problem}[/]")
        is_right = verdict.is_valid and not failures and len(acknowledged) > 0
        self.console.print(
            f"[bold {'green' if is_right else 'red'}]audit: {lost} lost, {doubled} duplicated, {out} out of order[/]"
        )
        return 0 if is_right else 1


def _longest_gap(sends: Sends) -> float:
    """The longest time between two acknowledgements of one producer, in seconds."""
    times = sorted([time for time, _ in sends.acknowledged])
    return max((after - before for before, after in pairwise(times)), default=0.0)


def _ends(sends: list[Sends]) -> dict[int, int]:
    """The offset after the last acknowledged record of each partition."""
    ends: dict[int, int] = {}
    for sent in sends:
        for operation in sent.history:
            for step in operation.steps:
                if isinstance(step, Sent) and step.offset is not None:
                    ends[step.key[1]] = max(ends.get(step.key[1], 0), step.offset + 1)
    return ends


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long each of the three parts takes")
    parser.add_argument("--rate", type=float, default=900, help="records a second, over all partitions")
    parser.add_argument("--output", default="demo-output", help="where the plot goes")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(Demo(parsed()).run())
