"""SQL computes a topic from another, exactly once: `.venv/bin/python -m examples.pipeline_transform`."""

import json

from confluent_kafka import Consumer, Producer

import odradek
from odradek.pipeline import Connection, spark_session, transform
from odradek.pipeline.transforming.query import from_sql

LATE = """
SELECT key, concat(get_json_object(CAST(value AS STRING), '$.flight'), ' is late') AS value
FROM records WHERE get_json_object(CAST(value AS STRING), '$.delay') > 60
"""


def main() -> None:
    """Copy the late flights; each run processes only the new records."""
    with odradek.broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        connection = Connection(broker.bootstrap)
        spark = spark_session(connection=connection, master="local[2]")
        for flight, delay in [("AA1", 5), ("UA2", 90), ("DL3", 61)]:
            producer.produce("flights", json.dumps({"flight": flight, "delay": delay}), key=flight)
            producer.flush()
            report = transform(spark, from_sql(LATE), connection=connection, from_topic="flights", to_topic="late")
            print(f"{report.written} written")
        spark.stop()

        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        consumer.subscribe(["late"])
        for message in consumer.consume(2, timeout=30):
            print(message.value().decode())
        consumer.close()


if __name__ == "__main__":
    main()
