"""A topic becomes an SQLite table with a row for each key: `make setup-spark`, `python -m examples.pipeline_export`."""

import json
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer

import odradek
from examples.flights.processes import missing_for_spark, spark_jars
from odradek.pipeline import Connection, Export, export, spark_session

RECORDS = [
    ("ann", {"city": "Prague", "visits": 1}),
    ("bob", {"city": "Brno", "visits": 1}),
    ("ann", {"city": "Prague", "visits": 2}),
    ("bob", None),
    ("eve", {"city": "Olomouc", "visits": "many"}),
]


def main() -> None:
    """Export records that insert, update and delete rows, and one that is invalid."""
    if (reason := missing_for_spark()) is not None:
        raise SystemExit(f"Spark cannot run here: {reason}")
    with tempfile.TemporaryDirectory() as folder, odradek.broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for name, fields in RECORDS:
            producer.produce("people", None if fields is None else json.dumps(fields), json.dumps({"name": name}))
        producer.flush()
        copy = Path(folder) / "copy.db"
        with closing(sqlite3.connect(copy)) as database:
            database.execute("CREATE TABLE people (name TEXT PRIMARY KEY, city TEXT, visits BIGINT)")
            connection = Connection(broker.bootstrap)
            os.environ.setdefault("ODRADEK_JARS", str(spark_jars().parent))  # fetched by `make setup-spark`
            spark = spark_session(connection=connection, master="local[2]")
            report = export(spark, connection, Export("people", f"sqlite:///{copy}", "people"))
            spark.stop()
            print("records:", report.read, "skipped:", dict(report.skipped))
            print("rows:", database.execute("SELECT * FROM people").fetchall())
            print("why:", database.execute("SELECT error FROM odradek_dead_letters").fetchone()[0])


if __name__ == "__main__":
    main()
