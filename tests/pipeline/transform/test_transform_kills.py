"""The command is killed at random moments of its transactions: committed readers get each result exactly once."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from tests.long_form import LONG
from tests.pipeline.archive.topics import create, produce
from tests.pipeline.killing import chance, kill, start
from tests.pipeline.restore.restore_tables import records_of

RECORDS = 3_000
BATCH = 150
PARTITIONS = 2
GROUP = "odradek-transform-from-to-to"
QUERY = "SELECT key, value, headers, timestamp FROM records WHERE offset % 3 <> 0"


def command(connection: Connection, batch: int) -> list[str]:
    topics = ("--from-topic", "from", "--to-topic", "to", "--sql", QUERY, "--batch", str(batch))
    where = ("-b", connection.bootstrap, "--master", "local[2]", "--conf", "spark.driver.memory=1g")
    return [sys.executable, "-m", "odradek", "pipeline", "transform", *topics, *where]


def read(connection: Connection) -> int:
    """The number of committed source offsets."""
    with Cluster(connection) as cluster:
        return sum(cluster.committed(GROUP).values())


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not LONG, reason="make torture; the short form is a kill beside the commit, in test_transform.py")
def test_kills_at_random_moments_cost_and_double_nothing(spark, connection: Connection, tmp_path: Path):
    random, kills = chance(), 10
    create(connection, "from", PARTITIONS)
    produce(connection, "from", [b"%d" % number for number in range(RECORDS)])
    for number in range(kills):
        process = start(command(connection, BATCH), tmp_path / "errors")
        try:
            goal = (
                RECORDS * number // (kills + 1)
            )  # later each time, so that the last run is not finished before its kill
            while read(connection) <= goal and process.poll() is None:
                time.sleep(0.02)
            time.sleep(random.uniform(0, 1.5))
            assert process.poll() is None, (tmp_path / "errors").read_text()
        finally:
            kill(process)
    done = subprocess.run(command(connection, RECORDS), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = records_of(connection.bootstrap, "to", PARTITIONS, isolation="read_committed")
    source = [one for one in records_of(connection.bootstrap, "from", PARTITIONS) if one.offset % 3]
    assert {one.value: one._replace(offset=0, partition=0) for one in found} == {
        one.value: one._replace(offset=0, partition=0) for one in source
    }
    assert len(found) == len(source) == len({one.value for one in found})
