"""Real full disks: a small file system where mounting is allowed, and a file size limit everywhere."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.storage_backends.interface import StoreFullError
from odradek.storage_backends.lmdb_segments.errors import mapped

_SCRIPT = """
import sys
from odradek.storage_backends.interface import LogPolicy, StoreFullError
from odradek.storage_backends.opener import StoreOptions, open_store
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.access import read_all
from odradek.storage_backends.testing.keys import KEY
from odradek.partitions.model import LogWrite, PartitionKey
{prepare}
store = open_store("lmdb://" + sys.argv[1], StoreOptions(map_slack_bytes=4 << 20))
log = store.open(KEY, LogPolicy(segment_bytes={segment_bytes}))
batches = []
try:
    while len(batches) < 1000:
        batch = make_batch(len(batches), payload=bytes([len(batches) % 256]) * 100_000)
        log.commit([LogWrite([batch], producers={{1: b"%d" % len(batches)}})], sync=True)
        batches.append(batch)
except StoreFullError as error:
    print("full:", error)
assert 5 < len(batches) < 1000, len(batches)

def check(log):
    snapshot = log.load()
    assert snapshot.log_end_offset == len(batches), (snapshot.log_end_offset, len(batches))
    assert snapshot.producers == {{1: b"%d" % (len(batches) - 1)}}
    for offset in range(snapshot.log_start_offset, len(batches)):
        assert read_all(log, offset).startswith(batches[offset].data), offset

def open_again():
    log.close()
    return store.open(KEY, LogPolicy(segment_bytes={segment_bytes}))

assert log.failed
log = open_again()
check(log)
try:
    for n in range(40):
        store.open(PartitionKey("other", KEY.topic_id, n), LogPolicy())
        store.set_properties({{"k": "v" * 100_000 * n}})
except StoreFullError as error:
    print("also full:", error)
{relieve}
for _ in range(3):
    batch = make_batch(len(batches), payload=b"small")
    log.commit([LogWrite([batch], producers={{1: b"%d" % len(batches)}})], sync=True)
    batches.append(batch)
check(log)
store.close()
store = open_store("lmdb://" + sys.argv[1])
check(store.open(KEY, LogPolicy()))
store.close()
print("kept", len(batches))
"""


def run(directory, prepare, relieve, segment_bytes=1 << 30):
    script = _SCRIPT.format(prepare=prepare, relieve=relieve, segment_bytes=segment_bytes)
    done = subprocess.run([sys.executable, "-c", script, directory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_file_size_limit(tmp_path):
    """EFBIG instead of ENOSPC: LMDB gets the error in the middle of a write, as with a full disk."""
    prepare = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))"
    relieve = "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))"
    output = run(tmp_path / "store", prepare, relieve)
    assert "full: writing" in output
    assert "00000000000000000000.lmdb: the file size limit is reached: raise it (ulimit -f)" in output


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB.

    Skips where mounting is not allowed; the test with the file size limit covers that case.
    """
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", directory], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", directory], check=True)


@pytest.mark.parametrize("segment_bytes", [1 << 30, 700_000])
def test_full_disk(small_disk, segment_bytes):
    """Within a segment, and during rolls; deleting old segments frees space."""
    filler = (
        "import os, pathlib; filler = pathlib.Path(sys.argv[1]).parent / 'filler'; filler.write_bytes(bytes(1_000_000))"
    )
    output = run(small_disk / "store", filler, "filler.unlink()", segment_bytes)
    assert "the file system is full: free space on it, lower retention.bytes" in output
    assert "also full:" in output


@pytest.mark.parametrize(
    ("code", "hint"), [(errno.ENOSPC, "free space"), (errno.EDQUOT, "quota"), (errno.EFBIG, "ulimit -f")]
)
def test_each_kind_of_full_disk_gives_advice(code, hint):
    error = mapped(OSError(code, "no"), Path("/data/x"), "writing")
    assert isinstance(error, StoreFullError)
    assert "/data/x" in str(error)
    assert hint in str(error)
