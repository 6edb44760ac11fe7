"""What a broker imports late is imported in a worker thread once it serves, and not before."""

import json
import subprocess
import sys

from gateway.early_imports import late_modules

SCRIPT = """
import json, sys, threading
from gateway.broker import run_broker
from gateway.config import load_config
from gateway.early_imports import late_modules

def imported():
    return [name for name in late_modules() if name in sys.modules]

def on_ready(running):
    at_ready.extend(imported())
    running.stop()

at_ready = []
settings = {"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"}
run_broker(load_config(overrides=settings, environ={}), on_ready, signals=False)
print(json.dumps([at_ready, imported()]))
"""


def test_late_modules_are_imported_after_the_start(tmp_path):
    """A broker that is told to stop at once still waits for the thread."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], check=True, capture_output=True, text=True, timeout=60
    )
    at_ready, at_end = json.loads(ran.stdout)
    assert "coordinator.groups.shard" not in at_ready
    assert "gateway.handlers.offset_commit" not in at_ready
    assert at_end == late_modules()
