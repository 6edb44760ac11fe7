"""Spark reads and writes topics with `format("kafka")`: `make setup-spark`, `python -m examples.spark_batch`."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, at import
    from kafka import KafkaConsumer, KafkaProducer

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import odradek
from examples.flights.processes import missing_for_spark, spark_jars

TEXT = "the cares of a family man are the cares of the whole family"


def session() -> SparkSession:
    """A local Spark with the jars of the Kafka connector, so that it downloads nothing at its start."""
    jars = ",".join(str(jar) for jar in sorted(spark_jars().glob("*.jar")))
    settings = {"spark.jars": jars, "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main() -> None:
    """Count the words in one topic, and write the counts to another."""
    if (reason := missing_for_spark()) is not None:
        raise SystemExit(f"Spark cannot run here: {reason}")
    with odradek.broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for word in TEXT.split():
            producer.send("words", word.encode())
        producer.close()

        spark = session()
        servers = ("kafka.bootstrap.servers", broker.bootstrap)
        words = spark.read.format("kafka").option(*servers).option("subscribe", "words").load()
        counts = words.groupBy(f.col("value").alias("key")).agg(f.count("*").cast("string").alias("value"))
        counts.write.format("kafka").option(*servers).option("topic", "counts").save()
        spark.stop()

        consumer = KafkaConsumer(
            "counts", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=5_000
        )
        found = {}
        while len(found) < len(set(TEXT.split())):
            record = next(consumer)
            found[record.key.decode()] = int(record.value)
        consumer.close()
        for word, count in sorted(found.items(), key=lambda item: (-item[1], item[0])):
            print(f"{count} {word}")


if __name__ == "__main__":
    main()
