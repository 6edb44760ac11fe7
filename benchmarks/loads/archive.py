"""Spark, local[2]: a topic read by `format("kafka")`, and archived as a table."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from odradek.pipeline import Connection, archive, open_table, spark_session
from odradek.pipeline.session import read_options

SETTINGS = {"spark.driver.memory": "1g", "spark.ui.enabled": "false"}


def both(bootstrap: str, warm_up: str, topic: str, records: int) -> dict[str, float]:
    """Seconds of each, in a session that has done both before, with another topic and once with this one."""
    connection = Connection(bootstrap)
    spark = spark_session(connection=connection, master="local[2]", conf=SETTINGS)
    with tempfile.TemporaryDirectory(prefix="odradek-archive-") as folder:
        found: dict[str, float] = {}
        for number, (name, expected) in enumerate(((warm_up, None), (topic, records), (topic, records))):
            started = time.perf_counter()
            _read(spark, connection, name)
            read = time.perf_counter()
            path = Path(folder) / f"{number}-{name}"
            archive(spark, name, str(path), connection=connection)
            archived = time.perf_counter()
            if expected is not None and open_table(path).records != expected:
                raise SystemExit(f"{open_table(path).records} records were archived, not {expected}")
            found = {"read": read - started, "archive": archived - read}
    spark.stop()
    return found


def _read(spark: Any, connection: Connection, topic: str) -> None:  # noqa: ANN401 - Spark is an optional dependency
    frame = spark.read.format("kafka").options(**read_options(connection)).option("subscribe", topic).load()
    frame.write.format("noop").mode("overwrite").save()


def main(kind: str, arguments: dict[str, Any]) -> None:
    """Run one load and print its figures."""
    print(json.dumps({"both": both}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
