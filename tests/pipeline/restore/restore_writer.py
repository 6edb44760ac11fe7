"""The work of one of Spark's tasks, as a process that can be killed: TABLE TOPIC BOOTSTRAP WAY.

Requests are small, so that a small table takes many of them.
"""

import sys
from pathlib import Path

from odradek.pipeline.connection import Connection
from odradek.pipeline.restoring import exact
from odradek.pipeline.restoring.files import scan
from odradek.pipeline.restoring.plan import Rows
from odradek.pipeline.restoring.tasks import Task, Way, Work
from odradek.pipeline.topic_partition import TopicPartition

LIMIT_BYTES = 60_000

path, topic, bootstrap, way = sys.argv[1:]
exact.IMPORTED_BATCH_BYTES = exact.IMPORT_BYTES = LIMIT_BYTES
partition = TopicPartition("source", 0)
rows = Rows(partition, scan(str(file) for file in Path(path).iterdir())[partition])
work = [Work(rows, 0, rows.end)]
task = Task(Connection(bootstrap), Way(way), "source", topic, 0, LIMIT_BYTES, work, {0: 0}, frozenset({0}))
result = task.done(work[0])
print(result.to_pylist()[0])
sys.exit(result.column(5)[0].as_py())
