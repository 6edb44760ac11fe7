"""A topic becomes a table and is restored, the same at every offset: `python -m examples.pipeline_restore`."""

import tempfile
from pathlib import Path

from confluent_kafka import Producer

import odradek
from odradek.pipeline import Connection, archive, restore, spark_session


def main() -> None:
    """Restore into a second topic, twice: the second run has nothing to do."""
    with odradek.broker() as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic("temperatures", 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for day in range(10):
            producer.produce("temperatures", f"{day + 15} celsius", key="Prague", headers=[("day", str(day))])
        producer.flush()

        connection = Connection(broker.bootstrap)
        spark = spark_session(connection=connection, master="local[2]")
        table = str(Path(folder) / "temperatures.table")
        archive(spark, ["temperatures"], table, connection=connection)
        for _ in range(2):
            report = restore(spark, table, connection=connection, to_topic="restored")
            print(f"{report.written} records written, {report.skipped['already there']} already there")
        spark.stop()


if __name__ == "__main__":
    main()
