"""Cold start in a process: a new interpreter imports the package, starts a broker and gets a record acknowledged.

The target is 150 ms on an idle machine; the figure is only reported, not asserted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial

from benchmarks.brokers import WITH_BYTECODE, Side
from benchmarks.cases import ODRADEK, Case, Effort, Figure, Mode, NotMeasuredError
from compat_tests.processes import ROOT

_SCRIPT = """
import sys, time
started = time.perf_counter()
from odradek import broker
imported = time.perf_counter()
with broker(sys.argv[1]) as running:
    running.create_topic("cold")
    ready = time.perf_counter()
    import socket
    with socket.create_connection((running.host, running.port)) as client:
        client.sendall(bytes.fromhex(sys.argv[2]))
        answer = client.recv(4096)
    acknowledged = time.perf_counter()
    print("[%f, %f, %f]" % (ready - started, acknowledged - started, acknowledged - imported), answer.hex(), flush=True)
"""


def cold(side: Side, mode: Mode, effort: Effort, *, storage: str) -> Mapping[str, float]:
    """Milliseconds in the interpreter, and of the whole process, with the start of the interpreter and the shutdown."""
    del side, mode, effort
    from benchmarks.loads.raw import produce_frame

    frame = produce_frame("cold", 0, records=1, size_bytes=100)
    with tempfile.TemporaryDirectory(prefix="odradek-cold-") as folder:
        command = [sys.executable, "-c", _SCRIPT, storage or folder, frame.hex()]
        started = time.perf_counter()
        env = {**os.environ, **WITH_BYTECODE}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, env=env)
        whole_s = time.perf_counter() - started
    if done.returncode != 0:
        raise NotMeasuredError(f"the fresh interpreter failed: {done.stderr.strip().splitlines()[-1:]}")
    return {"acknowledged": acknowledged_ms(done.stdout), "process": whole_s * 1000}


def acknowledged_ms(output: str) -> float:
    """The milliseconds to the first acknowledgement. Raises NotMeasuredError if the answer is an error."""
    times, _, answer = output.rpartition(" ")
    reply = bytes.fromhex(answer)
    error_at = 4 + 4 + 1 + 1 + (1 + len("cold")) + 1 + 4
    if reply[error_at : error_at + 2] != b"\0\0":
        raise NotMeasuredError(f"the first record was not acknowledged: {answer}")
    return json.loads(times)[1] * 1000


_FIGURES = (
    Figure("acknowledged", "ms", higher_is_better=False),
    Figure("process", "ms, whole process", higher_is_better=False),
)
_ABSENT = "Kafka does not run inside a Python process"


def _case(name: str, title: str, storage: str) -> Case:
    return Case(
        name,
        title,
        _FIGURES,
        partial(cold, storage=storage),
        modes=(Mode.ANY,),
        sides=(ODRADEK,),
        absent=_ABSENT,
        rounds=4,
    )


CASES = (
    _case("cold", "cold in-process, memory (target 150 ms)", "memory://"),
    _case("cold-lmdb", "cold in-process, LMDB with fsync", ""),
)
