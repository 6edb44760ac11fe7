"""The command as a process that is killed at random moments with its JVM, and the results of later runs."""

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odradek.pipeline import open_table, read_table
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from tests.long_form import rounds
from tests.pipeline.archive import topics
from tests.pipeline.archive.topics import counts_by_offset, create, produce, produce_transactions, rows, topic_rows
from tests.pipeline.killing import chance, kill, start

SETTINGS = ("spark.driver.memory=1g", "spark.ui.enabled=false")
RECORDS = 3_000
BATCH = rounds(600, 200)


def command(connection: Connection, path: Path, *more: str, master: str = "local[2]") -> list[str]:
    conf = [word for setting in SETTINGS for word in ("--conf", setting)]
    words = ["-m", "odradek", "pipeline", "archive", "t", "--to", str(path), "--bootstrap", connection.bootstrap]
    return [sys.executable, *words, "--master", master, *conf, "--max-offsets", str(BATCH), "--json", *more]


def wait_for_records(path: Path, process: "subprocess.Popen[str]", records: int) -> None:
    """Waits until `records` are committed. Opening the table completes what a killed run left, as any reader does."""
    while process.poll() is None:
        with contextlib.suppress(PipelineError):  # no table yet
            if open_table(path).records >= records:
                return
        time.sleep(0.05)


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_kills_at_random_moments_cost_and_double_nothing(spark, connection, tmp_path):
    random = chance()
    create(connection, "t", 3)
    produce(connection, "t", [b'{"n":%d}' % number if number % 10 else b"poison" for number in range(RECORDS)])
    produce_transactions(connection, "t", [True, False, True])
    path, errors = tmp_path / "table", tmp_path / "errors"
    kills, killed = rounds(1, 12), 0
    for number in range(kills):
        process = start(command(connection, path, "--value", "json"), errors)
        try:
            wait_for_records(path, process, RECORDS * 8 // 10 * number // kills)
            time.sleep(random.random() * 2)  # anywhere in the batches that follow
        finally:
            killed += kill(process)
    print(f"{killed} of {kills} were killed before they had ended")
    assert killed >= rounds(0, 10)
    done = subprocess.run(command(connection, path, "--value", "json"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = topic_rows(spark, connection, "t")
    poisoned = {row[:3] for row in expected if not row[6].startswith(b"{")}
    assert len(poisoned) == RECORDS // 10 + 10
    good = [row for row in expected if row[:3] not in poisoned]
    assert rows(read_table(spark, path), *topics.COLUMNS) == good
    assert rows(spark.read.parquet(str(path)), *topics.COLUMNS) == good
    dead = counts_by_offset(spark.read.parquet(f"{path}.dead-letters"))
    assert dead == dict.fromkeys(poisoned, 1)
    assert list((path / "_odradek" / "staging").iterdir()) == []


@pytest.mark.timeout(300)
def test_a_continuous_job_ends_with_the_batch_under_way(spark, connection, tmp_path):
    """It archives what arrives while it runs; SIGTERM lets it finish, with the CLI's exit code and its report."""
    create(connection, "t")
    produce(connection, "t", [b"x"] * 100)
    path, errors = tmp_path / "table", tmp_path / "errors"
    process = start(command(connection, path, "--continuous", "--every", "100ms", "--group", "lag"), errors)
    try:
        wait_for_records(path, process, 100)
        produce(connection, "t", [b"y"] * 100)
        wait_for_records(path, process, 200)
        process.terminate()
        output, _ = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            kill(process)
    assert process.returncode == 143, errors.read_text()
    report = json.loads(output)
    assert (report["complete"], report["written"]) == (True, 200)
    assert set(counts_by_offset(read_table(spark, path)).values()) == {1}
