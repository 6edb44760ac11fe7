"""What one of Spark's tasks does, as a process that can be killed: TABLE TOPIC BOOTSTRAP WAY."""

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odradek.pipeline.connection import Connection
from odradek.pipeline.restoring.tasks import Task, Way

path, topic, bootstrap, way = sys.argv[1:]
table = pq.read_table(path).sort_by("offset")
columns = {
    "partition": table["partition"],
    "offset": table["offset"],
    "timestamp_ms": pc.cast(pc.cast(table["timestamp"], pa.timestamp("ms", "UTC")), pa.int64()),
    "timestampType": table["timestampType"],
    "key": table["key"],
    "value": table["value"],
    "headers": table["headers"],
}
batches = pa.table(columns).combine_chunks().to_batches(500)
task = Task(Connection(bootstrap), Way(way), "source", topic, 0, 60_000, {0: 0}, frozenset({0}))
for result in task.run(batches):
    print(result.to_pylist()[0])
    sys.exit(result.column(5)[0].as_py())
