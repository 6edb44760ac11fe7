"""Spark's part of the demo, as a process: the topic becomes a Parquet table, whose totals are printed as JSON.

It starts Spark, and waits for a line on standard input before it reads the topic.

`python -m odradek.pipeline.demo.spark_table DATA TOPIC TABLE`
"""

import importlib.util
import json
import os
import sys
from typing import Any, Final

from odradek.pipeline.errors import MissingError
from odradek.pipeline.java import find_java

NEEDED: Final = ("pyspark", "pyarrow")
_FIELDS: Final = "carrier STRING, arr_delay INT"


def missing() -> str | None:
    """Why Spark cannot run here, and what to do; None if it can."""
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        return "pip install 'odradek[spark]'"
    try:
        find_java()
    except MissingError as error:
        return error.format_message()
    return None


def main() -> None:
    """Run the job."""
    data, topic, table = sys.argv[1:]
    os.environ |= {"JAVA_HOME": str(find_java().resolve().parent.parent), "PYSPARK_PYTHON": sys.executable}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from odradek.pipeline.segments.source import SegmentSource

    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # quick to start
        "spark.sql.shuffle.partitions": "2",
    }
    spark: Any = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()  # pyright: ignore[reportUnknownMemberType]
    spark.dataSource.register(SegmentSource)
    if not sys.stdin.readline():
        return
    records = spark.read.format("odradek").option("path", data).option("subscribe", topic).load()
    records.selectExpr("partition", "offset", f"from_json(string(value), '{_FIELDS}') AS flight").write.parquet(table)
    totals = spark.read.parquet(table).groupBy("flight.carrier")
    counted = "count(*) AS flights", "count(flight.arr_delay) AS arrived", "coalesce(sum(flight.arr_delay), 0) AS delay"
    rows = totals.agg(*[_expression(text) for text in counted]).collect()
    sys.stdout.write(json.dumps({row.carrier: [row.flights, row.arrived, row.delay] for row in rows}) + "\n")
    spark.stop()


def _expression(text: str) -> Any:  # noqa: ANN401 - a Column
    from pyspark.sql import functions

    return functions.expr(text)


if __name__ == "__main__":
    main()
