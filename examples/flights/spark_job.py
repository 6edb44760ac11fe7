"""The Spark half: reads the topic as any Kafka with format("kafka") and prints the totals by carrier as JSON.

`python -m examples.flights.spark_job --bootstrap HOST:PORT --topic TOPIC --jars DIR`
"""

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

FIELDS = "carrier STRING, arr_delay INT"


def main() -> None:
    """Run the job; the last line on stdout is {carrier: [flights, arrived, sum of delays]}."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "jars"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    spark = (
        SparkSession.builder.appName("flights")
        .master("local[2]")
        .config("spark.jars", ",".join(str(jar) for jar in sorted(Path(options.jars).glob("*.jar"))))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config(
            "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        )  # a short job: start quickly
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("kafka.max.poll.records", "20000")  # docs/spark.md: fewer polls are faster
        .load()
    )
    flights = records.select(f.from_json(f.col("value").cast("string"), FIELDS).alias("flight")).select("flight.*")
    rows = (
        flights.groupBy("carrier")
        .agg(f.count("*").alias("flights"), f.count("arr_delay").alias("arrived"), f.sum("arr_delay").alias("delay"))
        .collect()
    )
    print(json.dumps({row.carrier: [row.flights, row.arrived, row.delay or 0] for row in rows}))
    spark.stop()


if __name__ == "__main__":
    main()
