"""Every example runs as printed on its page, and prints what the page shows."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from examples.flights.processes import missing_for_spark
from tests.postgres import skip_without_postgres

pytestmark = pytest.mark.timeout(240)  # many start a separate Spark
ROOT = Path(__file__).resolve().parents[2]
JARS = str(ROOT / ".cache" / "jars")


PRINTED = re.findall(r"^\| `([^`]+)` \|", (ROOT / "examples" / "README.md").read_text(), re.MULTILINE)
"""The command lines on the page."""


def output_of(printed: str, timeout_s: int = 200) -> str:
    """The output of a command line of the page, run by a shell without uv."""
    assert printed in PRINTED
    done = subprocess.run(
        ["/bin/sh", "-c", printed],
        cwd=ROOT,
        # pytest options of this run must not apply to the example
        env={"ODRADEK_JARS": JARS} | os.environ | {"PYTEST_ADDOPTS": "", "PATH": path_without_uv()},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def path_without_uv() -> str:
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not (Path(folder) / "uv").exists())


def test_every_printed_line_is_run_by_a_test():
    source = Path(__file__).read_text()
    not_here = [line for line in PRINTED if f'output_of("{line}")' not in source]
    # tests/pipeline/archive/test_masters.py runs the first, test_flights_demo.py the second
    assert not_here == ["python examples/pipeline_archive.py", "make demo"]


def test_kafka_python():
    assert "read offset 2: Prague 22 celsius" in output_of(".venv/bin/python -m examples.kafka_python")


def test_confluent():
    assert "10000 records read, their sum is 49,995,000" in output_of(".venv/bin/python -m examples.confluent")


def test_consumer_group():
    output = output_of(".venv/bin/python -m examples.consumer_group")
    assert "anna did 50 jobs; bedrich did 50 jobs" in output
    assert "anna did 100 jobs, from partitions [0, 1, 2, 3]" in output
    assert "committed: 200 of 200" in output


def test_the_fixtures_example_passes():
    assert "1 passed" in output_of(".venv/bin/pytest examples/test_with_a_broker.py")


def test_spark_batch():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    assert output_of(".venv/bin/python -m examples.spark_batch").startswith("3 the\n2 cares\n")


def test_pipeline_mirror():
    output = output_of(".venv/bin/python -m examples.pipeline_mirror")
    assert output == "10 records copied\n10 records copied\nidentical, 20 records compared\n"


def test_pipeline_audit():
    output = output_of(".venv/bin/python -m examples.pipeline_audit")
    assert output == "20 records, 10 committed, 2 markers\neverything is explained\n"


def test_pipeline_load():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    output = output_of(".venv/bin/python -m examples.pipeline_load")
    assert output.startswith("rows loaded: 3\nrows that came later: 1\n")
    assert output.endswith('{"id":3,"item":null,"price":null}\n{"id":4,"item":"paper","price":"12.25"}\n')


def test_pipeline_export():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    output = output_of(".venv/bin/python -m examples.pipeline_export")
    assert "records: 5 skipped: {'dead letter': 1}" in output
    assert "rows: [('ann', 'Prague', 2)]" in output
    assert 'why: visits: "many" is no int' in output


def test_outbox():
    skip_without_postgres()
    output = output_of(".venv/bin/python -m examples.outbox")
    assert output.startswith("rows: [('paper', 500), ('pens', 12)]\nrecord: order 1 ")
    assert output.count("record: ") == 2
    assert 'record: order 3 {"id": 3, "item": "pens", "quantity": 12}' in output


def test_pipeline_compact():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    output = output_of(".venv/bin/python -m examples.pipeline_compact")
    assert re.fullmatch(r"\d+ files became 1, with 96 records as before\n", output), output


def test_pipeline_restore():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    output = output_of(".venv/bin/python -m examples.pipeline_restore")
    assert "10 records written, 0 already there\n0 records written, 10 already there\n" in output


def test_pipeline_transform():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    output = output_of(".venv/bin/python -m examples.pipeline_transform")
    assert output.splitlines()[-5:] == ["0 written", "1 written", "1 written", "UA2 is late", "DL3 is late"]


def test_pipeline_segments():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    output = output_of(".venv/bin/python -m examples.pipeline_segments")
    assert output == "2 records of Brno\nBrno 2\nPraha 1\n"
