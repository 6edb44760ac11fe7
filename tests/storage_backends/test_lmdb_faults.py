"""Faults below LMDB: EIO, ENOSPC and short writes at the system calls of each of a log's operations.

`faulty_disk_worker.py` describes what each run does and checks.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults import Faults
from long_form import LONG

WORKER = Path(__file__).with_name("faulty_disk_worker.py")
SCENARIOS = {
    "commit": 3,
    "commit without sync": 2,
    "roll": 15,
    "roll without sync": 15,
    "delete segments": 4,
    "swap": 8,
    "compact": 15,
    "truncate the active segment": 3,
    "truncate the active segment without sync": 15,
    "truncate into a sealed segment": 15,
    "open": 2,
    "open without sync": 2,
    "create": 10,
}
"""The operations, and the minimum of system calls of each: fewer would mean that the shim misses some."""


@pytest.mark.torture
@pytest.mark.parametrize(("scenario", "calls"), SCENARIOS.items(), ids=SCENARIOS)
def test_a_log_outlives_a_failure_of_any_system_call(tmp_path, scenario, calls):
    environment = {**os.environ, **Faults(tmp_path).environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(WORKER), str(tmp_path / "stores"), scenario, "long" if LONG else "short"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    made, runs, failures = map(int, done.stdout.split())
    assert made >= calls
    assert runs >= 3 * calls or not LONG
    assert failures >= 1
