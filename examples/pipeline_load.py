"""A table of SQLite becomes a topic, each row once: `make setup-spark`, `python -m examples.pipeline_load`."""

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import odradek
from examples.flights.processes import missing_for_spark, spark_jars
from odradek.pipeline import Connection, Load, load, spark_session


def main() -> None:
    """Load three orders, and then one that is added later."""
    if (reason := missing_for_spark()) is not None:
        raise SystemExit(f"Spark cannot run here: {reason}")
    with tempfile.TemporaryDirectory() as folder, odradek.broker() as broker:
        shop = Path(folder) / "shop.db"
        with closing(sqlite3.connect(shop)) as database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price DECIMAL(9,2))")
            database.executemany(
                "INSERT INTO orders VALUES (?, ?, ?)", [(1, "ink", 2.5), (2, "pen", 1), (3, None, None)]
            )
            database.commit()
            connection = Connection(broker.bootstrap)
            os.environ.setdefault("ODRADEK_JARS", str(spark_jars().parent))  # fetched by `make setup-spark`
            spark = spark_session(connection=connection, master="local[2]")
            orders = Load(f"sqlite:///{shop}", "orders", "orders", incrementing="id")
            print("rows loaded:", load(spark, connection, orders).written)
            database.execute("INSERT INTO orders VALUES (4, 'paper', 12.25)")
            database.commit()
            print("rows that came later:", load(spark, connection, orders).written)
            frame = spark.read.format("kafka").options(**connection.for_spark()).option("subscribe", "orders").load()
            for row in sorted(frame.selectExpr("CAST(value AS STRING) AS value").collect()):
                print(row.value)
            spark.stop()


if __name__ == "__main__":
    main()
