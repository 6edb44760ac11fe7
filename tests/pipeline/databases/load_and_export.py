"""A program for tests that kill it: loads a table into a topic in small batches and exports the topic in parallel.

Run with BOOTSTRAP SOURCE_URL TARGET_URL BATCH_ROWS; prints "begun" when both jobs run, and "done" when both are.
"""

import sys
import threading

from odradek.gateway.cli.output import meter
from odradek.pipeline import Connection, Export, Load, load, spark_session
from odradek.pipeline.exporting import Exporter


def main(bootstrap: str, source: str, target: str, batch_rows: int) -> None:
    connection = Connection(bootstrap)
    spark = spark_session(connection=connection, master="local[2]", conf={"spark.driver.memory": "1g"})
    what = Load(source, "source", "t", incrementing="id", batch_rows=batch_rows)
    failures: list[BaseException] = []

    def loading() -> None:
        try:
            load(spark, connection, what)
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            failures.append(error)

    thread = threading.Thread(target=loading)
    exporter = Exporter(spark, connection, Export("t", target, "target", key=("id",), batch_rows=batch_rows))
    thread.start()
    print("begun", flush=True)
    with meter("", None, shown=False) as silent:
        while thread.is_alive():
            exporter.run(silent)
        exporter.run(silent)
    if failures:
        raise failures[0]
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
