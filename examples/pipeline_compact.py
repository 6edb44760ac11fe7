"""Small files of an archive are merged: `.venv/bin/python -m examples.pipeline_compact`."""

import tempfile
from pathlib import Path

from confluent_kafka import Producer

import odradek
from odradek.pipeline import Connection, archive, compact, open_table, read_table, spark_session


def main() -> None:
    """Archive four times, which writes small files each time, and merge them."""
    with odradek.broker() as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic("temperatures", 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        connection = Connection(broker.bootstrap)
        spark = spark_session(connection=connection, master="local[2]")
        table = str(Path(folder) / "temperatures.table")
        for day in range(4):
            for hour in range(24):
                producer.produce("temperatures", f"{day + hour} celsius", partition=hour % 2)
            producer.flush()
            archive(spark, "temperatures", table, connection=connection)
        before = len(open_table(table).files)
        compact(spark, table)
        count = read_table(spark, table).count()
        print(f"{before} files became {len(open_table(table).files)}, with {count} records as before")
        spark.stop()


if __name__ == "__main__":
    main()
