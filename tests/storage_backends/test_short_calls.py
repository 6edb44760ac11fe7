"""The system calls that keep the interpreter's lock."""

import os
import sys
from threading import Lock, Thread

import pytest
from linux_forms import libc_is_called

from odradek.storage_backends.lmdb_segments.inotify import Readable
from odradek.storage_backends.lmdb_segments.short_calls import file_size

LARGE_BYTES = 5 << 30


@pytest.fixture
def file(tmp_path):
    """An empty file, open for writing."""
    with (tmp_path / "file").open("wb", buffering=0) as opened:
        yield opened


@pytest.fixture
def pipe():
    """The ends of a pipe: to read, and to write."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_the_size_of_a_file_also_beyond_32_bits(file):
    assert file_size(file.fileno()) == 0
    file.write(bytes(7))
    assert file_size(file.fileno()) == 7
    os.truncate(file.fileno(), LARGE_BYTES)
    assert file_size(file.fileno()) == LARGE_BYTES


def test_the_number_of_bytes_to_read(pipe):
    end, other_end = pipe
    readable = Readable()
    assert readable.count(end) == 0
    os.write(other_end, bytes(300))
    assert readable.count(end) == 300
    os.read(end, 300)
    assert readable.count(end) == 0


def test_the_cause_of_a_failure_is_raised(pipe):
    with pytest.raises(OSError, match="Bad file descriptor"):
        file_size(-1)
    with pytest.raises(OSError, match="Illegal seek"):
        file_size(pipe[0])
    with pytest.raises(OSError, match="Bad file descriptor"):
        Readable().count(-1)


@libc_is_called
def test_no_other_thread_runs_during_the_calls(file, pipe):
    ran, gate, readable = [], Lock(), Readable()
    gate.acquire()

    def run():
        with gate:
            ran.append(True)

    before = sys.getswitchinterval()
    other = Thread(target=run)
    other.start()
    sys.setswitchinterval(1000)  # the other thread gets the lock only when this one releases it
    try:
        gate.release()
        for _ in range(20_000):
            file_size(file.fileno())
            readable.count(pipe[0])
        assert not ran
    finally:
        sys.setswitchinterval(before)
        other.join()
