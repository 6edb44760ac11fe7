"""Real full disks: a small file system where mounting is allowed, and a file size limit everywhere."""

import errno
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.partitions.model import LogWrite, PartitionKey
from odradek.storage_backends.interface import DiskFullError, LogPolicy, StoreFullError
from odradek.storage_backends.lmdb_segments.advice import METADATA_TOPIC
from odradek.storage_backends.lmdb_segments.errors import mapped
from odradek.storage_backends.lmdb_segments.reserve import PART_BYTES, RESERVE_BYTES, SpaceReserve
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY

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
    subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.mark.parametrize("segment_bytes", [1 << 30, 700_000])
def test_full_disk(small_disk, segment_bytes):
    """Within a segment, and during rolls; deleting old segments frees space."""
    filler = (
        "import os, pathlib; filler = pathlib.Path(sys.argv[1]).parent / 'filler'; filler.write_bytes(bytes(1_000_000))"
    )
    output = run(small_disk / "store", filler, "filler.unlink()", segment_bytes)
    assert "the file system is full: free space on it, lower retention.bytes" in output
    assert "also full:" in output


def take_all_space(directory):
    with (directory / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass


def open_full(directory, size_bytes, after_the_roll, *, durable):
    """A log with a sealed segment, on a disk that is full then."""
    store = open_store(f"lmdb://{directory}/store")
    log = store.open(KEY, LogPolicy(segment_bytes=600_000, durable=durable))
    while not log.segments()[0].sealed:
        log.commit([LogWrite([make_batch(end_of(log), payload=b"x" * size_bytes)])], sync=durable)
    for _ in range(after_the_roll):
        log.commit([LogWrite([make_batch(end_of(log), payload=b"x" * size_bytes)])], sync=durable)
    take_all_space(directory)
    return store, log


def end_of(log):
    return log.segments()[-1].end_offset


def reserved_bytes(directory):
    return (directory / "store" / "reserve").stat().st_blocks * 512


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("size_bytes", [300, 20_000, 250_000])
def test_segments_are_removed_on_a_full_disk(small_disk, size_bytes, durable):
    store, log = open_full(small_disk, size_bytes, 1, durable=durable)
    start_offset = log.segments()[0].end_offset
    log.commit([LogWrite(log_start_offset=start_offset)], sync=durable)
    assert log.load().log_start_offset == log.segments()[0].base_offset == start_offset
    store.close()
    assert reserved_bytes(small_disk) == RESERVE_BYTES


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("size_bytes", [300, 20_000, 250_000])
def test_all_records_are_deleted_on_a_full_disk(small_disk, size_bytes, durable):
    store, log = open_full(small_disk, size_bytes, 1, durable=durable)
    end_offset = end_of(log)
    log.commit([LogWrite(log_start_offset=end_offset)], sync=durable)
    assert [(each.base_offset, each.size_bytes) for each in log.segments()] == [(end_offset, 0)]
    store.close()
    assert reserved_bytes(small_disk) == RESERVE_BYTES


def test_what_removes_no_segment_does_not_use_the_reserve(small_disk):
    store, log = open_full(small_disk, 20_000, 0, durable=True)
    with pytest.raises(DiskFullError):
        log.commit([LogWrite([make_batch(end_of(log), payload=b"x" * 20_000)])], sync=True)
    store.close()
    assert reserved_bytes(small_disk) == RESERVE_BYTES


def test_changes_of_metadata_use_a_half_of_the_reserve(small_disk):
    store, log = open_full(small_disk, 20_000, 1, durable=True)
    metadata = PartitionKey(METADATA_TOPIC, KEY.topic_id, 0)
    (small_disk / "filler").unlink()
    log_of_metadata = store.open(metadata, LogPolicy(durable=False))
    take_all_space(small_disk)
    commits = 0
    with suppress(DiskFullError):
        while log_of_metadata.commit_at_once([LogWrite([make_batch(commits, payload=b"x" * 1000)])]):
            commits += 1
            take_all_space(small_disk)  # as the records of other logs do
    assert log_of_metadata.failed
    assert commits >= RESERVE_BYTES // 2 // PART_BYTES
    assert reserved_bytes(small_disk) == RESERVE_BYTES // 2
    log.commit([LogWrite(log_start_offset=log.segments()[0].end_offset)], sync=True)
    store.close()
    assert reserved_bytes(small_disk) == RESERVE_BYTES


def test_the_reserve_is_restored_as_far_as_there_is_space(small_disk):
    path = small_disk / "reserve"
    reserve = SpaceReserve(path)
    reserve.restore()
    while reserve.give_up(PART_BYTES):
        pass
    assert path.stat().st_size == PART_BYTES
    assert reserve.give_up(0)
    assert not reserve.give_up(0)
    take_all_space(small_disk)
    reserve.restore()
    assert path.stat().st_size == 0
    (small_disk / "filler").write_bytes(bytes((small_disk / "filler").stat().st_size - 2 * PART_BYTES - 4096))
    reserve.restore()
    assert path.stat().st_size == path.stat().st_blocks * 512 == 2 * PART_BYTES
    (small_disk / "filler").unlink()
    reserve.restore()
    assert path.stat().st_blocks * 512 == RESERVE_BYTES


def test_a_copy_of_the_reserve_that_has_holes_is_allocated(tmp_path):
    with (tmp_path / "reserve").open("wb") as file:
        file.truncate(RESERVE_BYTES)
    SpaceReserve(tmp_path / "reserve").restore()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES


@pytest.mark.parametrize(
    ("code", "hint"), [(errno.ENOSPC, "free space"), (errno.EDQUOT, "quota"), (errno.EFBIG, "ulimit -f")]
)
def test_each_kind_of_full_disk_gives_advice(code, hint):
    error = mapped(OSError(code, "no"), Path("/data/x"), "writing")
    assert isinstance(error, StoreFullError)
    assert "/data/x" in str(error)
    assert hint in str(error)
