"""Every example runs as it stands and prints what its page says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.flights.processes import missing_for_spark

ROOT = Path(__file__).resolve().parents[2]


def output_of(*arguments: str, timeout_s: int = 100) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTEST_ADDOPTS": ""},  # the options of this run are not the example's
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafka_python():
    assert "read offset 2: Prague 22 celsius" in output_of("examples.kafka_python")


def test_confluent():
    assert "10000 records read, their sum is 49,995,000" in output_of("examples.confluent")


def test_consumer_group():
    told = output_of("examples.consumer_group")
    assert "anna did 50 jobs; bedrich did 50 jobs" in told
    assert "anna did 100 jobs, from partitions [0, 1, 2, 3]" in told
    assert "committed: 200 of 200" in told


def test_the_fixtures_example_passes():
    assert "1 passed" in output_of("pytest", "-p", "no:randomly", "-q", "examples/test_with_a_broker.py")


def test_spark_batch():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    assert output_of("examples.spark_batch").startswith("3 the\n2 cares\n")
