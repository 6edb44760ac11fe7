"""Runs the demo and prints its events on the terminal; exit code 1 if a count differs."""

import argparse
import json
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, at import
    from kafka import KafkaAdminClient, KafkaProducer
    from kafka.errors import RetriableError

from examples.flights.dataset import Flight, carrier_names, flights, totals_of
from examples.flights.member import GROUP, SESSION_TIMEOUT_MS
from examples.flights.processes import Broker, Child, DemoError, missing_for_spark, run_spark
from examples.flights.report import comparison, write_chart
from examples.flights.totals import Totals
from examples.flights.watcher import Watcher

TOPIC, STATE_TOPIC = "flights", "flight-delays"
PARTITIONS = 6
MEMBERS = ("consumer-1", "consumer-2", "consumer-3")
VICTIM = "consumer-2"
KILL_AFTER = 0.4
FINISH_TIMEOUT_S = 120


class Demo:
    """One run; `story` collects the printed events for the chart's footer."""

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        self.console = Console()
        self.story: list[str] = []
        self._options = options
        self._stack = stack
        self._logs = Path(options.output) / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._members: dict[str, Child] = {}
        self._killed = False
        self.bootstrap = ""
        self._promise = ""

    def say(self, text: str) -> None:
        """Print an event, and add it to `story`."""
        self.story.append(text)
        self.console.print(f"[bold cyan]●[/] {text}", highlight=False, soft_wrap=True)

    def start_broker(self) -> None:
        """Start `odradek serve` on a temporary directory, or use the cluster of `--bootstrap`."""
        if self._options.bootstrap:
            self.bootstrap = self._options.bootstrap
            self.say(f"using the cluster at {self.bootstrap}")
            return
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-demo-")))
        broker = Broker(directory / "data", self._logs)
        self._stack.callback(broker.stop)
        self.bootstrap = broker.bootstrap
        self._promise = ", each after it was safe on disk"
        self.say(broker.ready_line.split("; try")[0])

    def create_topics(self) -> None:
        """Create both topics."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        keep = {"retention.ms": "-1"}  # the records carry the times of 2013
        admin.create_topics(
            {
                TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": keep},
                STATE_TOPIC: {
                    "num_partitions": PARTITIONS,
                    "replication_factor": 1,
                    "configs": {"cleanup.policy": "compact"},
                },
            },
            wait_for_metadata=True,
        )
        admin.close()
        self.say(f"topic {TOPIC!r} with {PARTITIONS} partitions, {STATE_TOPIC!r} for the group's results")

    def start_members(self) -> None:
        """Start the consumer processes."""
        for name in MEMBERS:
            module = ("examples.flights.member", "--bootstrap", self.bootstrap, "--name", name)
            member = Child(name, self._logs, *module, "--input", TOPIC, "--state", STATE_TOPIC)
            self._stack.callback(member.stop)
            self._members[name] = member
        with self.console.status("waiting for the group to share out the partitions"):
            shares = self._await_shares()
        assigned = "; ".join(f"{name}: {', '.join(map(str, share))}" for name, share in sorted(shares.items()))
        self.say(f"{len(MEMBERS)} consumer processes form the group {GROUP!r} ({assigned})")

    def _await_shares(self) -> dict[str, list[int]]:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        deadline_s = time.monotonic() + FINISH_TIMEOUT_S
        while time.monotonic() < deadline_s:
            self._require_members()
            shares = group_shares(admin)
            if len(shares) == len(MEMBERS) and all(shares.values()):
                admin.close()
                return shares
            time.sleep(0.1)
        raise DemoError(f"the group did not come together; see {self._logs}")

    def stream(self, rows: list[Flight]) -> Totals:
        """Produce all flights while the group counts them, kill one member meanwhile, and wait for the group."""
        watcher = Watcher(self.bootstrap, STATE_TOPIC, PARTITIONS, self._moved)
        self._stack.callback(watcher.close)
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TextColumn("{task.fields[rate]}"), TimeElapsedColumn(), console=self.console) as bars:
            self._bars = bars
            self._produced = bars.add_task("produced", total=len(rows), rate="")
            self._counted = bars.add_task("counted ", total=len(rows), rate="")
            self._produce(rows, watcher)
            self._await_group(len(rows), watcher)
        return watcher.totals

    def _produce(self, rows: list[Flight], watcher: Watcher) -> None:
        started_s = time.monotonic()
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=50, batch_size=65_536)
        for number, row in enumerate(rows):
            producer.send(TOPIC, key=row.tail_number, value=row.value, timestamp_ms=row.departure_ms)
            if number % 2_000 == 0:
                self._show(self._produced, number, started_s)
                self._show(self._counted, watcher.counted, started_s)
                if number >= len(rows) * KILL_AFTER:
                    self._kill_once(watcher)
        producer.flush()
        producer.close()
        self._show(self._produced, len(rows), started_s)
        seconds = time.monotonic() - started_s
        rate = f"{len(rows) / seconds:,.0f} a second"
        self.say(f"{len(rows):,} flights acknowledged in {seconds:.1f} s, {rate}{self._promise}")
        self._kill_once(watcher)

    def _kill_once(self, watcher: Watcher) -> None:
        if self._killed:
            return
        self._killed = True
        if not watcher.wait_until(lambda: bool(watcher.partitions_of(VICTIM)), FINISH_TIMEOUT_S):
            self._require_members()
            raise DemoError(f"{VICTIM} never wrote a result; see {self._logs}")
        owned = ", ".join(map(str, watcher.partitions_of(VICTIM)))
        self._members.pop(VICTIM).kill()
        self.say(
            f"[red]kill -9 {VICTIM}[/], which had partitions {owned}; "
            f"the group notices after its session timeout of {SESSION_TIMEOUT_MS // 1000} s"
        )

    def _moved(self, partition: int, before: str, after: str, offset: int) -> None:
        if self._killed:
            self.say(f"  partition {partition}: {before} → {after}, which goes on at offset {offset:,}")

    def _await_group(self, total: int, watcher: Watcher) -> None:
        started_s = time.monotonic()
        while watcher.counted < total:
            watcher.wait_until(lambda: watcher.counted >= total, 0.2)
            self._bars.update(self._counted, completed=watcher.counted)
            self._require_members()
            if time.monotonic() - started_s > FINISH_TIMEOUT_S:
                raise DemoError(f"the group stopped at {watcher.counted:,} of {total:,}; see {self._logs}")
        self._bars.update(self._counted, completed=watcher.counted)

    def _require_members(self) -> None:
        for member in self._members.values():
            member.require_alive()

    def _show(self, task: TaskID, done: int, started_s: float) -> None:
        rate = done / max(time.monotonic() - started_s, 1e-9)
        self._bars.update(task, completed=done, rate=f"{rate:,.0f}/s")

    def run_spark(self) -> Totals | None:
        """Spark's totals of the same topic; None, with a line in red, if Spark cannot run."""
        reason = "--no-spark" if self._options.no_spark else missing_for_spark()
        if reason is not None:
            self.say(f"[bold red]SPARK DID NOT RUN: {reason}. Its count is not compared.[/]")
            return None
        started_s = time.monotonic()
        with self.console.status('Spark reads the topic with format("kafka")'):
            answer = run_spark(self.bootstrap, TOPIC, self._logs)
        self.say(f'Spark read the topic with format("kafka") in {time.monotonic() - started_s:.1f} s')
        return Totals(json.loads(answer))


def group_shares(admin: KafkaAdminClient) -> dict[str, list[int]]:
    """The partitions of each member, by client id; empty while the group is not stable."""
    try:
        group = admin.describe_groups([GROUP])[GROUP]
    except RetriableError:  # the coordinator is being elected
        return {}
    if group["group_state"] != "Stable":
        return {}
    return {
        member["client_id"]: sorted(
            index for topic in member["member_assignment"]["assigned_partitions"] for index in topic["partitions"]
        )
        for member in group["members"]
    }


def run(options: argparse.Namespace) -> int:
    """Run the demo; returns 0 if all counts agree."""
    started_s = time.monotonic()
    with ExitStack() as stack:
        demo = Demo(options, stack)
        rows = list(flights(options.limit))
        keyless = sum(row.tail_number is None for row in rows)
        demo.say(f"{len(rows):,} departures from New York in 2013 ({keyless:,} without a tail number: null keys)")
        demo.start_broker()
        demo.create_topics()
        demo.start_members()
        results = {"file": totals_of(rows), "group": demo.stream(rows)}
        spark = demo.run_spark()
        if spark is not None:
            results["Spark"] = spark
        return conclude(demo, options, results, time.monotonic() - started_s)


def conclude(demo: Demo, options: argparse.Namespace, results: dict[str, Totals], seconds: float) -> int:
    """Show the counts side by side, and write the chart; returns 0 if all counts agree, else 1."""
    names = carrier_names()
    demo.console.print()
    demo.console.print(comparison(names, results))
    agree = all(totals.carriers == results["file"].carriers for totals in results.values())
    who = ", ".join(results)
    verdict = f"{who} agree on every carrier" if agree else f"{who} DISAGREE"
    demo.say(f"[bold {'green' if agree else 'red'}]{verdict}[/], after {seconds:.0f} s")
    chart = Path(options.output) / "flights.html"
    write_chart(chart, names, results["group"], [_plain(line) for line in demo.story])
    demo.console.print(f"[bold cyan]●[/] chart: {chart}", highlight=False)
    return 0 if agree else 1


def _plain(line: str) -> str:
    return Text.from_markup(line).plain


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.flights", description=sys.modules["examples.flights"].__doc__
    )
    parser.add_argument("--limit", type=int, help="only this number of flights")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--output", default="demo-output", help="folder for chart and logs [%(default)s]")
    parser.add_argument("--bootstrap", help="use this cluster, which must not have the topics yet, instead of a broker")
    try:
        status = run(parser.parse_args())
    except DemoError as error:
        Console(stderr=True).print(f"[bold red]{error}")
        status = 1
    except KeyboardInterrupt:
        status = 130
    raise SystemExit(status)


if __name__ == "__main__":
    main()
