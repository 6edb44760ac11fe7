"""A restore that is killed at random moments is completed by the next run, without losses or duplicates."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from restore_tables import Archived, bounds_of, records_of, write_table

from odradek.pipeline.connection import Connection
from odradek.pipeline.restoring.renumbered import provenance_of
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.writing.producing import end_offset
from odradek.testing import TestBroker
from tests.long_form import LONG, rounds

HERE = Path(__file__).parent
ROWS = [Archived(0, offset, b"%06d" % offset * 100) for offset in range(8_000) if offset % 97]
"""With gaps, and without offset 0."""
PRODUCED = [Archived(0, offset, b"%06d" % offset * 100) for offset in range(5, 4_000) if offset % 997]
"""With fewer gaps: each is a transaction."""
DRIVER_RECORDS, DRIVER_KILLS = 200_000, 14
"""360 MB, or about ninety requests; a kill takes effect one or two of them late."""


@pytest.fixture
def chance() -> random.Random:
    """Random moments; the seed is printed, and ODRADEK_SEED repeats them."""
    seed = int(os.environ.get("ODRADEK_SEED") or random.randrange(2**32))
    print(f"ODRADEK_SEED={seed}")
    return random.Random(seed)


def end_of(broker: TestBroker) -> Callable[[], int]:
    """A function that returns the end offset of the topic."""
    client, partition = WireClient(Connection(broker.bootstrap)), TopicPartition("t", 0)
    return lambda: end_offset(client, partition)


def kill_and_finish(command: list[str], chance: random.Random, end: Callable[[], int], last: int, kills: int) -> int:
    """Starts the command `kills` times, kills it when the topic has grown to a random offset, then lets it complete.

    Returns how many were killed before they had ended.
    """
    killed = 0
    for number in range(kills):
        goal = end() + chance.randrange(max(1, (last - end()) // (kills - number)))
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 100
        while end() <= goal and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0].decode()
        assert process.returncode in {-signal.SIGKILL, 0}, output
        killed += process.returncode == -signal.SIGKILL
    print(f"{killed} of {kills} were killed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return killed


@pytest.mark.torture
@pytest.mark.parametrize("way", ["import", "produce"])
def test_a_killed_writer_is_continued_at_the_same_offsets(broker, tmp_path: Path, chance: random.Random, way: str):
    broker.create_topic("t", configs={"retention.ms": "-1"})
    rows = ROWS if way == "import" else PRODUCED
    table = write_table(tmp_path / "table", rows)
    command = [sys.executable, str(HERE / "restore_writer.py"), str(table), "t", broker.bootstrap, way]
    last = rows[-1].offset
    kills = rounds(2, 20)
    assert kill_and_finish(command, chance, end_of(broker), last, kills) >= kills // 2
    assert records_of(broker.bootstrap, "t") == rows
    assert bounds_of(broker.bootstrap, "t") == (0 if way == "import" else 5, last + 1)


@pytest.mark.torture
def test_a_killed_writer_of_new_offsets_is_continued(broker, tmp_path: Path, chance: random.Random):
    broker.create_topic("t", configs={"retention.ms": "-1"})
    table = write_table(tmp_path / "table", ROWS)
    command = [sys.executable, str(HERE / "restore_writer.py"), str(table), "t", broker.bootstrap, "renumber"]
    kills = rounds(2, 20)
    assert kill_and_finish(command, chance, end_of(broker), len(ROWS), kills) >= kills // 2
    found = records_of(broker.bootstrap, "t", isolation="read_committed")
    provenances = [provenance_of(one.headers) for one in found]
    assert [one.offset for one in provenances if one is not None] == [row.offset for row in ROWS]


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not LONG, reason="make torture; the short form kills what a task runs, above")
@pytest.mark.skipif(os.environ.get("ODRADEK_NO_JAVA") == "1", reason="no Java here (ODRADEK_NO_JAVA=1)")
def test_a_killed_driver_is_continued(broker, tmp_path: Path, chance: random.Random):
    rows = [Archived(0, offset, b"%06d" % offset * 300) for offset in range(DRIVER_RECORDS) if offset % 97]
    table = write_table(tmp_path / "table", rows)
    broker.create_topic("t", configs={"retention.ms": "-1"})
    options = ["--to-topic", "t", "-b", broker.bootstrap, "--master", "local[2]", "--conf", "spark.driver.memory=1g"]
    command = [sys.executable, "-m", "odradek", "pipeline", "restore", str(table), *options]
    last = rows[-1].offset
    assert kill_and_finish(command, chance, end_of(broker), last, DRIVER_KILLS) >= 10
    assert records_of(broker.bootstrap, "t") == rows


@pytest.mark.parametrize("way", ["import", "produce", "renumber"])
def test_the_broker_is_restarted_in_the_middle(broker, tmp_path: Path, way: str):
    broker.create_topic("t", configs={"retention.ms": "-1"})
    rows = PRODUCED if way == "produce" else ROWS
    table = write_table(tmp_path / "table", rows)
    command = [sys.executable, str(HERE / "restore_writer.py"), str(table), "t", broker.bootstrap, way]
    end = end_of(broker)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while end() <= 500:
            assert process.poll() is None, process.stdout
            time.sleep(0.002)
        broker.restart()
        output, _ = process.communicate(timeout=110)
    assert process.returncode == 0, output
    found = records_of(broker.bootstrap, "t", isolation="read_committed")
    assert [one.value for one in found] == [row.value for row in rows]
