"""`odradek pipeline restore` of a table that is written before: measures only the job, not the start of Spark.

The session restores a small table first, since a JVM runs its first jobs at a fraction of its later speed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from odradek.pipeline.connection import Connection
from odradek.pipeline.restoring.job import restore as restore_job
from odradek.pipeline.session import spark_session

ROWS_A_FILE = 50_000
ROWS_A_GROUP = 1_000
WARM_UP_RECORDS = 20_000


def restore(
    *, bootstrap: str, warm_up: str, topic: str, partitions: int, size_bytes: int, records: int
) -> dict[str, float]:
    """Seconds to restore `records` records of `size_bytes`, from and to `partitions` partitions."""
    spark = spark_session(master="local[2]", conf={"spark.driver.memory": "1g"})
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        tables = Path(folder) / "small", Path(folder) / "large"
        _write_table(tables[0], partitions, size_bytes, WARM_UP_RECORDS)
        _write_table(tables[1], partitions, size_bytes, records)
        restore_job(spark, tables[0], connection=Connection(bootstrap), to_topic=warm_up)
        started = time.perf_counter()
        report = restore_job(spark, tables[1], connection=Connection(bootstrap), to_topic=topic)
        seconds = time.perf_counter() - started
    assert report.complete, report.notes
    assert report.written == records, report.written
    spark.stop()
    return {"records": records, "seconds": seconds}


def _write_table(folder: Path, partitions: int, size_bytes: int, records: int) -> None:
    """Write files like those of `archive`: each has a range of offsets of one partition."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    folder.mkdir()
    per_partition = records // partitions
    now_us = time.time_ns() // 1_000
    for partition in range(partitions):
        for start in range(0, per_partition, ROWS_A_FILE):
            count = min(ROWS_A_FILE, per_partition - start)
            noise = os.urandom(count * size_bytes)  # noqa: TID251 - a load, no broker
            columns = {
                "topic": pa.array(["bench"] * count),
                "partition": pa.array([partition] * count, pa.int32()),
                "offset": pa.array(range(start, start + count), pa.int64()),
                "timestamp": pa.array([now_us] * count, pa.timestamp("us", "UTC")),
                "timestampType": pa.array([0] * count, pa.int32()),
                "key": pa.nulls(count, pa.binary()),
                "value": pa.array([noise[at * size_bytes : (at + 1) * size_bytes] for at in range(count)]),
                "headers": pa.nulls(count, headers),
            }
            name = folder / f"{partition}-{start}.parquet"
            pq.write_table(
                pa.table(columns), name, row_group_size=ROWS_A_GROUP, compression="zstd", use_dictionary=False
            )


if __name__ == "__main__":
    assert sys.argv[1] == "restore", "there is one load"
    print(json.dumps(restore(**json.loads(sys.argv[2]))))
