"""The outbox over a separate PostgreSQL: `python -m benchmarks.outbox [--seconds N] [--sync]`.

Prints the latency from COMMIT to a polling consumer at a steady rate, and the transactions a second that append, from
one connection and from several. With `--sync`, PostgreSQL syncs each commit to the disk, as it does by default; without
it, the figures show the cost of the outbox itself.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy import make_url

from examples.flights.processes import Broker
from tests.postgres import Postgres, programs

TOPIC, PARTITIONS = "outbox", 8
RATE = 100
CONNECTIONS = (1, 8)


def create_topic(bootstrap: str) -> None:
    """Create the topic, with a client that is closed on return, before the broker stops."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [created] = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values()
    created.result()


def latencies_ms(bootstrap: str, conninfo: str, seconds: float) -> list[float]:
    """Milliseconds from the return of COMMIT to that of the poll, for one record a transaction at `RATE` a second."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "latency", "fetch.wait.max.ms": 500})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    consumer.consume(1, timeout=1)  # connects
    committed_s: list[float] = []
    count = int(RATE * seconds)

    def append() -> None:
        with psycopg.connect(conninfo) as connection:
            started_s = time.perf_counter()
            for number in range(count):
                connection.execute("SELECT odradek.append(%s, NULL, %s, NULL, 0)", [TOPIC, str(number)])
                connection.commit()
                committed_s.append(time.perf_counter())
                time.sleep(max(0, started_s + (number + 1) / RATE - time.perf_counter()))

    appending = threading.Thread(target=append)
    appending.start()
    read_s: list[float] = []
    while len(read_s) < count:
        message = consumer.poll(30)
        assert message is not None, "no record came"
        assert not message.error(), message.error()
        read_s.append(time.perf_counter())
    appending.join()
    consumer.close()
    return [(read - committed) * 1000 for read, committed in zip(read_s, committed_s, strict=True)]


def appended(conninfo: str, connections: int, seconds: float) -> float:
    """Transactions a second, each with one record with a key, over `connections` connections."""
    deadline_s = time.perf_counter() + seconds
    counts = [0] * connections

    def append(at: int) -> None:
        with psycopg.connect(conninfo) as connection:
            while time.perf_counter() < deadline_s:
                connection.execute("SELECT odradek.append(%s, %s, %s)", [TOPIC, f"{at} {counts[at]}", "x" * 100])
                connection.commit()
                counts[at] += 1

    _all([threading.Thread(target=append, args=(at,)) for at in range(connections)])
    return sum(counts) / seconds


def drained(conninfo: str) -> float:
    """Seconds until the outbox is empty."""
    started_s = time.perf_counter()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        while connection.execute("SELECT EXISTS (SELECT FROM odradek_outbox)").fetchone() == (True,):
            time.sleep(0.01)
    return time.perf_counter() - started_s


def _all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(server: Postgres, folder: Path, seconds: float, say: Callable[[str], object]) -> None:
    """Run all measurements, and pass each result to `say`."""
    url = server.create_database()
    conninfo = make_url(url).set(drivername="postgresql").render_as_string()
    broker = Broker(folder / "data", folder, storage=url)
    try:
        create_topic(broker.bootstrap)
        found = sorted(latencies_ms(broker.bootstrap, conninfo, seconds))
        p50, p99 = statistics.median(found), found[int(len(found) * 0.99)]
        say(f"COMMIT to poll at {RATE} transactions a second: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        for connections in CONNECTIONS:
            rate = appended(conninfo, connections, seconds)
            say(f"{connections} connections append {rate:,.0f} transactions a second")
            say(f"  the broker is done {drained(conninfo):.2f} s later")
    finally:
        broker.stop()


def main() -> None:
    """Start PostgreSQL and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    parser.add_argument("--sync", action="store_true", help="sync each commit, PostgreSQL's default")
    options = parser.parse_args()
    found = programs()
    if found is None:
        raise SystemExit("PostgreSQL is missing: run scripts/ensure_postgres.sh")
    server = Postgres(found, durable=options.sync)
    try:
        server.start()
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
            measure(server, Path(folder), options.seconds, lambda line: print(line, flush=True))
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(main())
