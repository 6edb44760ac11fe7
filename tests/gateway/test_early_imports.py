"""What a broker imports late, a worker thread imports once it serves, and not before; inside a test it does without."""

import json
import subprocess
import sys

from odradek.gateway.early_imports import late_modules

SCRIPT = """
import json, sys, threading, time
from odradek.gateway.process import run_broker
from odradek.gateway.config import load_config
from odradek.gateway.early_imports import late_modules

def imported():
    return [name for name in LATE if name in sys.modules]

def stop_when_done(running):
    while serves and imported() != LATE:
        time.sleep(0.01)
    running.stop()

def on_ready(running):
    at_ready.extend(imported())
    threading.Thread(target=stop_when_done, args=(running,)).start()

LATE = late_modules(is_alone=True)
at_ready, serves = [], sys.argv[2] == "serves"
settings = {"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"}
run_broker(load_config(overrides=settings, environ={}), on_ready, signals=serves)
print(json.dumps([at_ready, imported()]))
"""


def imported(data, kind):
    """What a broker has imported when it is ready, and when it has ended."""
    command = [sys.executable, "-c", SCRIPT, str(data), kind]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


def test_late_modules_are_imported_after_the_start(tmp_path):
    at_ready, at_end = imported(tmp_path, "serves")
    assert "odradek.coordinator.groups.shard" not in at_ready
    assert "odradek.gateway.handlers.offset_commit" not in at_ready
    assert at_end == late_modules(is_alone=True)


def test_none_are_imported_for_a_broker_inside_a_test(tmp_path):
    at_ready, at_end = imported(tmp_path, "tests")
    assert at_end == at_ready
