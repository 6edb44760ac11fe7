"""Runs the demo: SQL over a topic in SQLite, then a consumer of transactions in PostgreSQL. 1 if counts differ."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy import create_engine, text

from examples.flights.dataset import Flight, carrier_names, flights, totals_of
from examples.flights.processes import ROOT, Broker, Child, DemoError
from examples.flights.report import comparison
from examples.flights.totals import Totals
from examples.flights_sql.application import TOPIC as DEPARTURES
from examples.postgres import postgresql

FLIGHTS = "flights"
PARTITIONS = 3
TRANSACTIONS_OF = 30_000
"""The number of flights that the application stores: each is a row, a call of `append`, and a record."""
SILENCE_S = 60
"""The time that a consumer waits for the next record before the demo fails."""
OF_TOPIC = (
    "SELECT as_json(value) ->> 'carrier' AS carrier, count(*) AS flights, "
    "count(as_json(value) ->> 'arr_delay') AS arrived, sum((as_json(value) ->> 'arr_delay'){cast}) AS delay "
    "FROM {topic} GROUP BY 1"
)
OF_ROWS = text("SELECT carrier, count(*), count(arrival_delay), sum(arrival_delay) FROM departed GROUP BY 1")


class Demo:
    """One run."""

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        self.console = Console()
        self.agrees = True
        self._stack = stack
        self._logs = Path(options.output) / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-sql-")))
        self._rows = list(flights(options.limit))
        self._started_s = time.monotonic()

    def say(self, told: str) -> None:
        """Print an event with its time."""
        since = f"{time.monotonic() - self._started_s:.0f} s"
        self.console.print(f"[bold cyan]●[/] {told}: {since}", highlight=False, soft_wrap=True)

    def over_sqlite(self) -> None:
        """Produce to a broker over SQLite, and count with SQL, with a group, and in the file."""
        storage = f"sqlite://{self._folder}/store.db"
        bootstrap = self._broker("sqlite", storage, FLIGHTS, {})
        with self._progress() as bars:
            produce(bootstrap, bars, self._rows)
            self.say(f"{len(self._rows):,} flights acknowledged, each after it was safe in SQLite")
            group = follow(bootstrap, FLIGHTS, "counting", bars, len(self._rows))
        self.say("a consumer group has counted them")
        counted = self._sql(storage, OF_TOPIC.format(topic=FLIGHTS, cast=""))
        self.say("odradek sql has counted them beside the broker")
        self.compare({"file": totals_of(self._rows), "group": group, "odradek sql": counted})

    def over_postgresql(self) -> None:
        """Run an application that stores and appends flights, while a consumer reads; count rows and records."""
        rows = self._rows[:TRANSACTIONS_OF]
        storage = self._stack.enter_context(postgresql())
        bootstrap = self._broker("postgresql", storage, DEPARTURES, {"odradek.sql.columns": "true"})
        application = ("--database", storage, "--limit", str(len(rows)))
        child = Child("application", self._logs, "examples.flights_sql.application", *application)
        self._stack.callback(child.stop)
        with self._progress() as bars:
            consumer = follow(bootstrap, DEPARTURES, "following", bars, len(rows), child)
        self.say(f"an ORM application has stored and appended {len(rows):,} flights, and a consumer followed")
        engine = create_engine(storage)
        with engine.connect() as connection:
            table = Totals({carrier: [*numbers] for carrier, *numbers in connection.execute(OF_ROWS)})
        engine.dispose()
        counted = self._sql(storage, OF_TOPIC.format(topic=DEPARTURES, cast="::int"))
        self.compare({"file": totals_of(rows), "rows": table, "consumer": consumer, "odradek sql": counted})

    def _broker(self, name: str, storage: str, topic: str, configs: dict[str, str]) -> str:
        logs = self._logs / name
        logs.mkdir(exist_ok=True)
        broker = Broker(self._folder / name, logs, storage=storage)
        self._stack.callback(broker.stop)
        create_topic(broker.bootstrap, topic, configs)
        self.say(f"a broker over {storage.split(':', maxsplit=1)[0]}")
        return broker.bootstrap

    def _progress(self) -> Progress:
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self.console)

    def _sql(self, storage: str, statement: str) -> Totals:
        with self.console.status("odradek sql"):
            command = [sys.executable, "-m", "odradek", "sql", statement, "--storage", storage, "--json"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoError(f"odradek sql: {done.stderr}")
        return Totals(
            {row["carrier"]: [row["flights"], row["arrived"], row["delay"]] for row in json.loads(done.stdout)}
        )

    def compare(self, results: dict[str, Totals]) -> None:
        """Print the counts in one table; set `agrees` to False if they are not equal."""
        self.console.print(comparison(carrier_names(), results))
        agree = all(totals.carriers == results["file"].carriers for totals in results.values())
        self.agrees = self.agrees and agree
        verdict = "agree on every carrier" if agree else "DISAGREE"
        self.say(f"[bold {'green' if agree else 'red'}]{', '.join(results)} {verdict}[/]")


def create_topic(bootstrap: str, topic: str, configs: dict[str, str]) -> None:
    """Create the topic, with a client that is closed on return, before the broker stops."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    configs = {"retention.ms": "-1", **configs}  # the records carry the times of 2013
    [created] = admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=configs)]).values()
    created.result()


def produce(bootstrap: str, bars: Progress, rows: list[Flight]) -> None:
    """Send all flights, and wait until they are acknowledged."""
    task = bars.add_task("producing", total=len(rows))
    failed: list[str] = []
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50, "compression.codec": "lz4"}
    producer = Producer({**settings, "partitioner": "murmur2_random"})
    for number, row in enumerate(rows):
        while True:
            try:
                producer.produce(
                    FLIGHTS,
                    row.value,
                    row.tail_number,
                    timestamp=row.departure_ms,
                    on_delivery=lambda error, _: failed.append(str(error)) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 5000 == 0:
            producer.poll(0)
            bars.update(task, completed=number)
    producer.flush()
    bars.update(task, completed=len(rows))
    if failed:
        raise DemoError(f"{len(failed)} flights were not acknowledged: {failed[0]}")


def follow(bootstrap: str, topic: str, what: str, bars: Progress, total: int, source: Child | None = None) -> Totals:
    """Count the records that a group reads, until there are `total`; `source` is the process that produces them."""
    task = bars.add_task(what, total=total)
    totals = Totals()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "counters", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        read_s = time.monotonic()
        while totals.flights < total or (source is not None and source.process.poll() is None):
            messages = consumer.consume(10_000, timeout=0.5)
            for message in messages:
                if message.error():
                    raise DemoError(f"the consumer: {message.error()}")
                value = json.loads(message.value())
                totals.add(value["carrier"], value["arr_delay"])
            bars.update(task, completed=totals.flights)
            read_s = time.monotonic() if messages else read_s
            if source is not None and source.process.poll():
                source.require_alive()
            if time.monotonic() - read_s > SILENCE_S:
                raise DemoError(f"{totals.flights:,} of {total:,} records of {topic} came, and then none")
        # One more record would be one that was rolled back, or a duplicate.
        for message in consumer.consume(1, timeout=1):
            raise DemoError(f"a record of {topic} too many: {message.value()!r}")
    finally:
        consumer.close()
    return totals


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the demo; returns 0 if all counts agree."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights_sql", description=__doc__)
    parser.add_argument("--limit", type=int, help="only the first so many flights")
    parser.add_argument("--output", default="demo-output", help="folder for logs [%(default)s]")
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        with ExitStack() as stack:
            demo = Demo(options, stack)
            demo.over_sqlite()
            demo.over_postgresql()
            return 0 if demo.agrees else 1
    except DemoError as error:
        Console(stderr=True).print(f"[bold red]{error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
