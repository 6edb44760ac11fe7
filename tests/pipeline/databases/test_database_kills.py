"""kill -9 of load and export at random moments: finally each row is once in the topic and once in the table."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy import NullPool, create_engine, text
from test_sending import committed

from tests.long_form import rounds

PROGRAM = Path(__file__).parent / "load_and_export.py"
ROWS = 4_000
BATCH_ROWS = 20
LONGEST_S = 3.0
KILLS = rounds(1, 12)


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts the program in its own process group; returns once both jobs have begun."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    assert line == "begun\n", process.stderr.read()
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """Kills the driver and Spark's JVM together."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


@pytest.mark.torture
@pytest.mark.timeout(3000)
def test_each_row_is_there_once_after_any_kill(broker, sqlite, postgres):
    if os.environ.get("ODRADEK_NO_JAVA") == "1":
        pytest.skip("no Java here (ODRADEK_NO_JAVA=1)")
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result()
    source, target = (postgres, sqlite) if seed % 2 and KILLS > 2 else (postgres, postgres)
    with create_engine(source, poolclass=NullPool).begin() as connection:
        connection.execute(text("CREATE TABLE source (id BIGINT PRIMARY KEY, words TEXT, price NUMERIC(9,2))"))
        numbers = f"generate_series(1, {ROWS}) i"
        connection.execute(text(f"INSERT INTO source SELECT i, repeat('x', i % 50), i / 7.0 FROM {numbers}"))
    for _ in range(KILLS):
        process = start(broker.bootstrap, source, target, str(BATCH_ROWS))
        try:
            process.wait(chance.uniform(0, LONGEST_S))
        except subprocess.TimeoutExpired:
            kill(process)
        else:
            pytest.fail(f"it ended before it was killed: {process.communicate()}")
    last = start(broker.bootstrap, source, target, str(ROWS))
    out, errors = last.communicate(timeout=600)
    assert out == "done\n", errors
    records = committed(broker.bootstrap, "t")
    assert sorted(json.loads(value)["id"] for _, value in records) == list(range(1, ROWS + 1))
    with create_engine(source, poolclass=NullPool).connect() as connection:
        rows = connection.execute(text("SELECT id, words, price::text FROM source ORDER BY id")).all()
    with create_engine(target, poolclass=NullPool).connect() as connection:
        assert connection.execute(text("SELECT id, words, price FROM target ORDER BY id")).all() == rows
        counts = connection.execute(text("SELECT written, deleted, dead FROM odradek_offsets")).one()
    assert counts == (ROWS, 0, 0)
