"""`make sql-demo`, on a part of the flights."""

import subprocess
import sys

import pytest

from examples.flights.processes import ROOT
from examples.flights.totals import Totals
from examples.flights_sql import __main__ as demo
from tests.postgres import skip_without_postgres


@pytest.mark.timeout(300)
def test_file_consumers_rows_and_sql_agree(tmp_path):
    skip_without_postgres()
    command = [sys.executable, "-m", "examples.flights_sql", "--limit", "2000", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "file, group, odradek sql agree on every carrier" in done.stdout
    assert "file, rows, consumer, odradek sql agree on every carrier" in done.stdout


def test_the_demo_fails_when_a_count_is_off(tmp_path, monkeypatch):
    compared = {"file": Totals({"UA": [1, 1, 5]}), "group": Totals({"UA": [1, 1, 4]})}
    monkeypatch.setattr(demo.Demo, "over_sqlite", lambda self: self.compare(compared))
    monkeypatch.setattr(demo.Demo, "over_postgresql", lambda self: None)
    assert demo.main(["--limit", "1", "--output", str(tmp_path)]) == 1
