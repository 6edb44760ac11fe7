"""One run of the demo: what happens in which order, and what is printed of it."""

import importlib.util
import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from odradek.pipeline.connection import Connection
from odradek.pipeline.demo.flights import Flight, Totals, flights, totals_of
from odradek.pipeline.demo.member import State, records_of
from odradek.pipeline.demo.processes import Broker, Child, DemoError, output_of
from odradek.pipeline.demo.producer import Producer
from odradek.pipeline.demo.spark_table import missing as missing_for_spark
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition
from odradek.pipeline.wire_client import WireClient, check
from odradek.pipeline.wire_groups import WireGroups
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

TOPIC, GROUP, PARTITIONS = "flights", "delays", 6
MEMBERS: Final = ("consumer-1", "consumer-2", "consumer-3")
VICTIM: Final = "consumer-2"
SESSION_TIMEOUT_MS: Final = 3_000
BROKER_SETTINGS: Final = (
    f"group.consumer.session.timeout.ms={SESSION_TIMEOUT_MS}",
    f"group.consumer.min.session.timeout.ms={SESSION_TIMEOUT_MS}",
    "group.consumer.heartbeat.interval.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
)
"""The group notices a killed consumer sooner than by Kafka's default, after 45 s."""
KILL_CONSUMER_AT, KILL_BROKER_AT = 0.3, 0.6
"""At which part of the records."""
AT_ONCE: Final = 150
PRODUCE_S: Final = 6.0
"""How long producing takes at least, so that there is something to see. Without this pause it takes about a second."""
POLL_S: Final = 0.1
PATIENCE_S: Final = 90.0
FETCH_BYTES: Final = 1024 * 1024
STATEMENT: Final = """
SELECT as_json(value) ->> 'carrier' AS carrier, count(*) AS flights, count(as_json(value) ->> 'arr_delay') AS arrived,
       coalesce(sum(as_json(value) ->> 'arr_delay'), 0) AS delay
FROM flights GROUP BY 1
"""
CARRIERS: Final[Mapping[str, str]] = {
    "9E": "Endeavor", "AA": "American", "AS": "Alaska", "B6": "JetBlue", "DL": "Delta", "EV": "ExpressJet",
    "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian", "MQ": "Envoy", "OO": "SkyWest", "UA": "United",
    "US": "US Airways", "VX": "Virgin", "WN": "Southwest", "YV": "Mesa",
}  # fmt: skip
NEXT: Final = (
    ("odradek serve", "a broker at 127.0.0.1:9092, its data in ./odradek-data", "", ""),
    ("echo hello | odradek produce greetings", "in another terminal", "kafka", "cli"),
    ('odradek sql "SELECT * FROM greetings"', "in the same folder, at any time", "apsw", "sql"),
    ("with odradek.broker() as b: b.bootstrap", "in a test; with pytest, the fixture kafka_broker", "", ""),
)
"""What to do next: command, description, and the package that it needs with the extra that brings it."""
COLUMN: Final = 42


class Demo:
    """One run, in a `with` block, which ends its processes and deletes its data."""

    def __init__(self, console: Console, *, with_spark: bool = True) -> None:
        self.console = console
        self._with_spark = with_spark
        self._stack = ExitStack()
        self._members: dict[str, Child] = {}
        self._owners: dict[int, str] = {}
        self._started_s = time.monotonic()

    def __enter__(self) -> Self:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-demo-")))
        self._data = self._folder / "data"
        self._broker = Broker(self._data, self._folder, BROKER_SETTINGS)
        self._stack.callback(self._broker.stop)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def run(self) -> bool:
        """Run all parts, and return True if all totals agree. Raises PipelineError."""
        rows = list(flights())
        results = {"file": totals_of(rows)}
        self._say(f"{len(rows):,} flights left New York in the first three weeks of 2013; they come with the package")
        self._start()
        results["group"] = self._stream(rows)
        results["log"] = self._read_again()
        for name, part in (("SQL", self._ask_sql), ("Spark", self._ask_spark)):
            found = part()
            if found is not None:
                results[name] = found
        return self.conclude(results)

    def _say(self, text: str) -> None:
        self.console.print(f"[bold cyan]●[/] {text}", highlight=False, soft_wrap=True)

    def _start(self) -> None:
        """Start the broker and the consumers, and create the topic."""
        self._broker.start()
        self._say(
            f"broker ready in {self._broker.ready_ms} ms at {self._broker.bootstrap}; it acknowledges what is on disk"
        )
        self._start_spark()
        self._client = self._stack.enter_context(WireClient(Connection(self._broker.bootstrap)))
        self._client.repeated(self._create_topic)
        for name in MEMBERS:
            module = ("odradek.pipeline.demo.member", "--bootstrap", self._broker.bootstrap, "--topic", TOPIC)
            child = Child(name, self._folder, *module, "--group", GROUP, "--name", name)
            self._stack.callback(child.stop)
            self._members[name] = child
        self._say(f"topic {TOPIC!r} with {PARTITIONS} partitions; {len(MEMBERS)} consumers form the group {GROUP!r}")

    def _create_topic(self) -> None:
        keep = CreatableTopicConfig(name="retention.ms", value="-1")  # the records have the times of 2013
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, configs=(keep,))
        answer = self._client.request(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        for one in answer.topics:
            check(one.error_code, f"the creation of topic {one.name!r}")

    def _stream(self, rows: list[Flight]) -> Totals:
        """Produce all records while the group counts them, with two crashes; return the group's totals."""
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, disable=not self.console.is_interactive) as bars:
            acknowledged = bars.add_task("acknowledged", total=len(rows))
            counted = bars.add_task("counted     ", total=len(rows))
            with WireClient(Connection(self._broker.bootstrap)) as watching:
                groups = WireGroups(watching)
                thread = _Thrown(lambda: self._produce(rows, lambda done: bars.update(acknowledged, completed=done)))
                deadline_s = time.monotonic() + PATIENCE_S
                while True:
                    states = self._states(groups)
                    total = sum(state.next_offset for state in states.values())
                    bars.update(counted, completed=total)
                    thread.raise_if_failed()
                    if total >= len(rows):
                        break
                    self._check_members(total, len(rows), deadline_s)
                    time.sleep(POLL_S)
                thread.join()
        return _merged(states)

    def _states(self, groups: WireGroups) -> dict[int, State]:
        """The states that the group has committed, and a line for each partition that another consumer counts now."""
        found = groups.committed_whole(GROUP)
        states = {place.partition: State.of(one.offset, one.metadata) for place, one in found.items()}
        for index, state in sorted(states.items()):
            before = self._owners.get(index, state.by)
            if before == VICTIM != state.by and VICTIM not in self._members:
                self._say(f"  partition {index}: {before} → {state.by}, which goes on behind the last commit")
            self._owners[index] = state.by
        return states

    def _check_members(self, counted: int, total: int, deadline_s: float) -> None:
        for member in list(self._members.values()):
            member.require_alive()
        if time.monotonic() > deadline_s:
            raise DemoError(f"the group has stopped at {counted:,} of {total:,} records")

    def _produce(self, rows: list[Flight], progress: Callable[[int], object]) -> None:
        started_s = time.monotonic()
        producer = Producer(self._client, TOPIC, PARTITIONS)
        crashes = [
            (int(len(rows) * KILL_CONSUMER_AT), self._kill_consumer),
            (int(len(rows) * KILL_BROKER_AT), self._kill_broker),
        ]
        running: list[_Thrown] = []
        for first in range(0, len(rows), AT_ONCE):
            if crashes and first >= crashes[0][0]:
                running.append(_Thrown(crashes.pop(0)[1]))  # while records are on their way
            producer.send(rows[first : first + AT_ONCE])
            progress(min(first + AT_ONCE, len(rows)))
            time.sleep(max(0.0, started_s + PRODUCE_S * first / len(rows) - time.monotonic()))
        for crash in running:
            crash.join()
        self._say(f"{len(rows):,} records acknowledged, in {time.monotonic() - started_s:.1f} s")

    def _kill_consumer(self) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while VICTIM not in self._owners.values() and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        owned = ", ".join(str(index) for index, name in sorted(self._owners.items()) if name == VICTIM)
        self._members.pop(VICTIM).kill()
        wait_s = SESSION_TIMEOUT_MS // 1000
        self._say(f"[red]kill -9 {VICTIM}[/], which had partitions {owned}; the group notices after {wait_s} s")

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()
        self._say(
            f"[red]kill -9 of the broker[/] in the middle of it; started again, ready in {self._broker.ready_ms} ms"
        )

    def _read_again(self) -> Totals:
        """Read the whole topic. Raises DemoError if an offset is missing or repeated."""
        totals = Totals()
        places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        ends = self._client.list_offsets(places, LATEST)
        positions = self._client.list_offsets(places, EARLIEST)
        while positions := {place: offset for place, offset in positions.items() if offset < ends[place]}:
            found = self._client.fetch(positions, max_bytes=PARTITIONS * FETCH_BYTES, partition_max_bytes=FETCH_BYTES)
            for place, fetched in found.items():
                check(fetched.error, f"reading {place.topic}-{place.partition}")
                for offset, value in records_of(fetched.records, positions[place]):
                    if offset != positions[place]:
                        raise DemoError(f"{place} has offset {offset:,} behind {positions[place] - 1:,}")
                    totals.add(value)
                    positions[place] = offset + 1
        return totals

    def _ask_sql(self) -> Totals | None:
        if importlib.util.find_spec("apsw") is None:
            self._say("[dim]SQL is left out: pip install 'odradek[sql]'[/]")
            return None
        command = ("odradek", "sql", STATEMENT, "--data", str(self._data), "--json")
        rows = cast("list[dict[str, Any]]", json.loads(output_of("odradek sql", self._folder / "sql.log", *command)))
        self._say("[bold]odradek sql[/] has grouped the records, in the directory of the running broker")
        return Totals({row["carrier"]: (row["flights"], row["arrived"], row["delay"]) for row in rows})

    def _start_spark(self) -> None:
        """Start Spark early: it takes as long to start as all the rest."""
        self._no_spark = missing_for_spark() if self._with_spark else "--no-spark"
        if self._no_spark is None:
            module = ("odradek.pipeline.demo.spark_table", str(self._data), TOPIC, str(self._folder / "table"))
            self._spark = Child("Spark", self._folder, *module)
            self._stack.callback(self._spark.stop)

    def _ask_spark(self) -> Totals | None:
        if self._no_spark is not None:
            self._say(f"[dim]Spark is left out: {self._no_spark}[/]")
            return None
        with self.console.status("Spark makes a table of the topic"):
            printed = self._spark.finish()
        self._say("[bold]Spark[/] has made a Parquet table of the topic")
        return Totals(json.loads(printed.splitlines()[-1]))

    def conclude(self, results: Mapping[str, Totals]) -> bool:
        """Print all totals side by side; returns True if they agree."""
        truth = results["file"]
        agree = all(totals == truth for totals in results.values())
        self.console.print(comparison(results))
        seconds = time.monotonic() - self._started_s
        verdict = "[bold green]agree: nothing lost, nothing twice[/]" if agree else "[bold red]DISAGREE[/]"
        self._say(f"{', '.join(results)} {verdict}, after {seconds:.0f} s")
        if agree:
            self.console.print("\n".join(next_lines()), highlight=False, markup=False, soft_wrap=True)
        return agree


class _Thrown(threading.Thread):
    """A thread whose error is raised again where it is joined."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - raised again in the thread that joins
            self._error = error

    def raise_if_failed(self) -> None:
        """Raise the error, if there was one."""
        if self._error is not None:
            raise self._error

    def join(self, timeout: float | None = PATIENCE_S) -> None:
        """Wait for its end. Raises its error."""
        super().join(timeout)
        self.raise_if_failed()


def _merged(states: Mapping[int, State]) -> Totals:
    totals = Totals()
    for state in states.values():
        totals.merge(state.totals)
    return totals


def next_lines() -> list[str]:
    """The lines of `NEXT`; those that need a package that is not installed say how to install it."""
    lines = ["", "Next:"]
    for command, what, package, extra in NEXT:
        is_there = not package or importlib.util.find_spec(package) is not None
        hint = "" if is_there else f" (pip install 'odradek[{extra}]')"
        lines.append(f"  {command:{COLUMN}}{what}{hint}")
    return lines


def comparison(results: Mapping[str, Totals]) -> Table:
    """A line for each carrier, a column of flights for each source; what differs from the file is red."""
    truth = results["file"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  carrier")
    for source in results:
        table.add_column(source, justify="right")
    table.add_column("mean delay", justify="right")
    for carrier, (_, arrived, delay) in sorted(truth.counts.items(), key=lambda item: -item[1][0]):
        cells = [_cell(totals, truth, carrier) for totals in results.values()]
        table.add_row(f"  {CARRIERS.get(carrier, carrier)}", *cells, f"{delay / (arrived or 1):+.1f} min")
    table.add_row("  all", *[f"[bold]{totals.flights:,}[/]" for totals in results.values()], "")
    return table


def _cell(totals: Totals, truth: Totals, carrier: str) -> str:
    counts = totals.counts.get(carrier, (0, 0, 0))
    colour = "green" if counts == truth.counts[carrier] else "bold red"
    return f"[{colour}]{counts[0]:,}[/]"
