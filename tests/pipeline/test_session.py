"""A session from `spark_session`, in a separate process, writes and reads a topic."""

import os
import subprocess
import sys

from odradek.pipeline.connection import Connection

PROGRAM = """
import sys
import pyarrow
from odradek.gateway.cli.output import meter
from odradek.pipeline import Connection, spark_session
from odradek.pipeline.progress import advancing
from odradek.pipeline.session import read_options

class Seen:
    records = 0
    def advance(self, records, size_bytes):
        self.records += records

connection = Connection(sys.argv[1])
memory = {"spark.driver.memory": "1g"}
spark = spark_session(connection=connection, data=sys.argv[2], master="local[2]", conf=memory)
assert spark.conf.get("spark.odradek.bootstrap") == sys.argv[1]
rows = spark.range(1000).selectExpr("CAST(id AS STRING) AS value")
rows.write.format("kafka").options(**connection.for_spark()).option("topic", "t").save()
seen = Seen()
with advancing(spark, seen, 1000):
    count = spark.read.format("kafka").options(**read_options(connection)).option("subscribe", "t").load().count()
def python(batches):
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

worker = spark.range(1).mapInArrow(python, "python string").first().python
stored = spark.read.format("odradek").option("subscribe", "t").load().count()
print(count, seen.records, worker == sys.executable, stored)
"""


def test_it_reads_and_writes_topics(connection: Connection, spark, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-c", PROGRAM, connection.bootstrap, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=environment)
    assert done.stdout.split() == ["1000", "1000", "True", "1000"], done.stderr
