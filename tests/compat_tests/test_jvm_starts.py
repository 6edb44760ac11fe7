"""JVMs start one after another, in all processes."""

import subprocess
import sys
from pathlib import Path

from compat_tests import jvm_starts
from compat_tests.processes import ROOT

HOLDING = """
import sys
from pathlib import Path
from compat_tests import jvm_starts
with jvm_starts.alone(Path(sys.argv[1])) as alone:
    print(alone, flush=True)
    sys.stdin.read()
"""


def holder(lock: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", HOLDING, str(lock)]
    started = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"True\n"
    return started


def test_a_start_waits_for_the_end_of_another_processs_and_goes_on_if_that_takes_too_long(tmp_path):
    lock = tmp_path / "lock"
    with holder(lock) as other:
        with jvm_starts.alone(lock, wait_s=0.1) as alone:
            assert not alone
        other.kill()
    with jvm_starts.alone(lock) as alone:
        assert alone


def test_threads_wait_for_each_other_too(tmp_path):
    with jvm_starts.alone(tmp_path / "lock"), jvm_starts.alone(tmp_path / "lock", wait_s=0.1) as second:
        assert not second
