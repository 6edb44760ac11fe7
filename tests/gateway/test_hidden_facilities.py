"""With all facilities hidden, a broker runs on its portable forms alone: a use of what is hidden fails."""

import json
import os
import subprocess
import sys

import pytest

from odradek.facilities import ALL, FACILITIES, VARIABLE

SCRIPT = """
import json, os, sys, time

import trio  # has its own epoll object on Linux, made from the name before it is guarded

def used_by_odradek():
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("odradek"):
            return True
        if name.startswith("trio"):
            return False
        frame = frame.f_back
    return False

touched = []

def guard(module, name):
    real = getattr(module, name)
    def guarded(*args, **options):
        if used_by_odradek():
            touched.append(name)
            raise AssertionError(f"{name} is hidden")
        return real(*args, **options)
    setattr(module, name, guarded)

import fcntl, resource, select, socket
for module, name in [
    (fcntl, "flock"), (os, "memfd_create"), (os, "posix_fallocate"), (os, "pread"), (resource, "getrlimit"),
    (resource, "setrlimit"), (select, "epoll"), (select, "poll"), (time, "pthread_getcpuclockid"),
]:
    guard(module, name)

def audit(event, args):
    if event == "open" and isinstance(args[0], str) and args[0].startswith("/proc") and used_by_odradek():
        touched.append(args[0])

sys.addaudithook(audit)
import odradek
with odradek.broker(sys.argv[1]) as kafka:
    for number in range(3):
        kafka.produce("t", f"v{number}")
    kafka.restart()
    values = [record.value.decode() for record in kafka.records("t")]
print(json.dumps({"values": values, "touched": sorted(set(touched))}))
"""


def run(tmp_path, hidden: str):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data")],
        env={**os.environ, VARIABLE: hidden},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_nothing_that_is_hidden_is_used(tmp_path):
    done = run(tmp_path, ALL)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {"values": ["v0", "v1", "v2"], "touched": []}


@pytest.mark.skipif(sys.platform != "linux", reason="the other systems have no facility of Linux to use")
def test_the_guard_sees_a_facility_that_is_used(tmp_path):
    """Without it, the test above could not fail."""
    hidden = ",".join(sorted(FACILITIES.keys() - {"epoll"}))
    done = run(tmp_path, hidden)
    assert "epoll is hidden" in done.stderr


def test_a_facility_that_is_none_is_refused_at_the_start():
    done = subprocess.run(
        [sys.executable, "-c", "import odradek.facilities"],
        env={**os.environ, VARIABLE: "epol"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert f"{VARIABLE} names epol, which is not one of: all, boot_id, epoll" in done.stderr
