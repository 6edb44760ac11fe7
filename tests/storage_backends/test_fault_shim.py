"""The shim of `tests/faults` intercepts the calls of LMDB and Python."""

import errno
import os
import subprocess
import sys

from faults import LATE, SHORT, WRITES, Faults

_WORKER = """
import os, sys
from pathlib import Path
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.partitions.model import LogWrite
root = Path(sys.argv[1])
log = open_store(f"lmdb://{root}/store").open(KEY, LogPolicy())
def commit():
    log.commit([LogWrite([make_batch(log.load().log_end_offset)])], sync=True)
def replace():
    (root / "a").write_bytes(b"12345678")
    (root / "a").rename(root / "b")
for line in sys.stdin:
    try:
        {"commit": commit, "replace": replace}[line.strip()]()
        print("done", flush=True)
    except (OSError, StoreError) as error:
        print(error, flush=True)
"""


def test_the_shim_fails_lmdbs_calls_and_pythons(tmp_path):
    faults = Faults(tmp_path)
    environment = {**os.environ, **faults.environment}
    command = [sys.executable, "-c", _WORKER, str(tmp_path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as worker:

        def ask(what):
            worker.stdin.write(what + "\n")
            worker.stdin.flush()
            return worker.stdout.readline().strip()

        faults.count(f"{tmp_path}/store")
        assert ask("commit") == "done"
        assert faults.trace()[-2:] == ["fdatasync", "pwrite"], "the shim does not reach LMDB"
        faults.fail(str(tmp_path), calls=["rename"], error=errno.EIO, mode=LATE, times=1)
        assert "Input/output error" in ask("replace")
        assert (tmp_path / "b").exists()
        faults.fail(f"{tmp_path}/a", calls=WRITES, mode=SHORT, times=1)
        assert ask("replace") == "done"
        assert (tmp_path / "b").stat().st_size == 8, "Python goes on after a short write"
        assert faults.trace() == ["write", "write"]
        faults.fail(f"{tmp_path}/store", calls=WRITES, error=errno.ENOSPC, times=1)
        assert ask("commit") != "done"
        assert faults.failed == 1
        worker.stdin.close()
