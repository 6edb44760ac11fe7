"""Iceberg: one append per batch, resumed from the offsets of the last snapshot.

Runs in a separate process with the Iceberg jar.
"""

import json
import os
import subprocess
import sys

import pytest

from odradek.pipeline import jars
from odradek.pipeline.errors import MissingError
from odradek.pipeline.setup import prepare
from tests.pipeline.archive.topics import create, produce, produce_transactions

PROGRAM = """
import json, sys
from odradek.pipeline import Connection, Parsing, archive, jars, spark_session

bootstrap, warehouse, action = sys.argv[1:]
connection = Connection(bootstrap)
catalog = "spark.sql.catalog.lake"
spark = spark_session(connection=connection, master="local[2]", packages=jars.ICEBERG, conf={
    "spark.driver.memory": "1g", catalog: "org.apache.iceberg.spark.SparkCatalog", f"{catalog}.type": "hadoop",
    f"{catalog}.warehouse": warehouse,
})
def run(**options):
    return archive(spark, "t", "lake.db.t", connection=connection, table_format="iceberg", value=Parsing("json"),
                   max_offsets=700, **options).as_json()
found = {"first": run()}
if action == "twice":
    from tests.pipeline.archive.topics import produce
    produce(connection, "t", [b'{"a":%d,"new":true}' % n for n in range(500)] + [b"poison"])
    found["second"] = run()
    table = spark.table("lake.db.t")
    found["rows"] = table.count()
    found["distinct"] = table.select("topic", "partition", "offset").distinct().count()
    found["dead"] = [bytes(row[0]).decode() for row in spark.table("lake.db.t_dead_letters").select("value").collect()]
    found["type"] = table.schema["parsed"].dataType.simpleString()
print("FOUND" + json.dumps(found))
spark.stop()
"""


@pytest.fixture(scope="session")
def iceberg_jar() -> None:
    try:
        prepare(jars.ICEBERG, shown=False)
    except MissingError as error:
        pytest.skip(f"LOUD: Iceberg is not tested here: {error}")


@pytest.mark.timeout(240)  # a separate Spark
def test_two_runs_give_each_record_once(connection, tmp_path, iceberg_jar):
    if os.environ.get("ODRADEK_NO_JAVA") == "1":
        pytest.skip("no Java here (ODRADEK_NO_JAVA=1)")
    create(connection, "t", 2)
    produce(connection, "t", [b'{"a":%d}' % number for number in range(2_000)] + [b"broken"])
    produce_transactions(connection, "t", [False])
    command = [sys.executable, "-c", PROGRAM, connection.bootstrap, str(tmp_path / "lake"), "twice"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.partition("FOUND")[2])
    assert found["first"]["skipped"] == {"dead letter": 1, "aborted": 5, "transaction marker": 1}
    assert found["second"]["written"] == 500
    assert (found["rows"], found["distinct"]) == (2_500, 2_500)
    assert sorted(found["dead"]) == ["broken", "poison"]
    assert found["type"] == "struct<a:bigint,new:boolean>"
