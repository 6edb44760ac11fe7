"""Spark reads a broker's data directory, without the broker: `.venv/bin/python -m examples.pipeline_segments`."""

import tempfile

from confluent_kafka import Producer

import odradek
from odradek.pipeline import spark_session


def main() -> None:
    """SQL over a topic's segments while the broker runs, and after it has stopped."""
    with tempfile.TemporaryDirectory() as data:
        with odradek.broker(data) as broker:
            broker.create_topic("cities", 2)
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            spark = spark_session(data=data, master="local[2]")
            for city in ("Brno", "Praha", "Brno"):
                producer.produce("cities", city)
            producer.flush()
            cities = spark.read.format("odradek").option("subscribe", "cities").load()
            cities.createOrReplaceTempView("cities")
            print(cities.where("CAST(value AS STRING) = 'Brno'").count(), "records of Brno")
        found = spark.sql("SELECT CAST(value AS STRING) AS city, count(*) AS records FROM cities GROUP BY 1 ORDER BY 1")
        for row in found.collect():
            print(row.city, row.records)
        spark.stop()


if __name__ == "__main__":
    main()
