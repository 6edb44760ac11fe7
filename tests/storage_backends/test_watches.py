"""Watches see what other programs do with a file, and nothing of what is done through descriptors opened before."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from odradek.storage_backends.lmdb_segments import inotify as module
from odradek.storage_backends.lmdb_segments.inotify import FileWatches


@pytest.fixture
def watches():
    made = FileWatches()
    yield made
    made.close()


@pytest.fixture
def opened(tmp_path):
    """A file and its open descriptor; `open_file` makes more."""
    fds = []

    def open_file(name):
        (tmp_path / name).write_bytes(bytes(100))
        fds.append(os.open(tmp_path / name, os.O_RDWR))
        return tmp_path / name, fds[-1]

    yield open_file
    for fd in fds:
        os.close(fd)


def in_another_program(path, code):
    subprocess.run([sys.executable, "-c", f"import os; path = {str(path)!r}; {code}"], check=True)


@pytest.mark.parametrize(
    "code",
    [
        "open(path, 'r+b').write(b'x')",
        "open(path).read()",
        "os.rename(path, path + '.other')",
        "os.unlink(path)",
        "os.chmod(path, 0o600)",
        "open(path + '.new', 'w'); os.rename(path + '.new', path)",
    ],
)
def test_an_event_is_seen_by_the_next_look_and_all_later_ones(watches, opened, code):
    path, fd = opened("a")
    _, other_fd = opened("b")
    watch, other = watches.add(fd), watches.add(other_fd)
    assert watch.look()
    in_another_program(path, code)
    assert not watch.look()
    assert not watch.look()
    assert other.look()


def test_writes_through_an_open_descriptor_are_no_events(watches, opened):
    _, fd = opened("a")
    watch = watches.add(fd)
    os.pwrite(fd, b"own", 0)
    os.fsync(fd)
    os.ftruncate(fd, 1000)
    assert os.lseek(fd, 0, os.SEEK_END) == 1000
    assert watch.look()


def test_a_file_may_have_several_watches(watches, opened):
    path, fd = opened("a")
    first, second = watches.add(fd), watches.add(fd)
    first.end()
    assert not first.look()
    assert second.look()
    path.read_bytes()
    assert not second.look()
    again = watches.add(fd)
    assert again.look()
    path.read_bytes()
    assert not again.look()


def test_a_lost_event_counts_for_all(watches, opened, monkeypatch):
    found = [watches.add(opened(name)[1]) for name in "ab"]
    answers = [module.EVENT.pack(-1, 0x4000, 0, 0)]

    def read(*_):
        if answers:
            return answers.pop()
        raise BlockingIOError

    monkeypatch.setattr(module.Readable, "count", lambda *_: 1)
    monkeypatch.setattr(module.os, "read", read)
    assert [watch.look() for watch in found] == [False, False]


def test_nothing_is_watched_without_inotify_or_beyond_its_limits(opened, monkeypatch):
    _, fd = opened("a")

    class Limited:
        def inotify_init1(self, _flags):
            return -1

    for libc in (object(), Limited()):
        monkeypatch.setattr(module, "LIBC", libc)
        watches = FileWatches()
        assert watches.add(fd) is None
        watches.close()


def test_closing_ends_all_watches(watches, opened):
    _, fd = opened("a")
    watch = watches.add(fd)
    watches.close()
    assert not watch.look()
    assert watches.add(fd) is None
    watch.end()


def test_a_look_sees_what_preceded_it_also_while_others_look(watches, opened):
    files = [opened(f"{number}") for number in range(300)]
    found = [(path, watches.add(fd)) for path, fd in files]
    _, idle_fd = opened("idle")
    idle, is_over = watches.add(idle_fd), Event()

    def look_on():
        while not is_over.is_set():
            assert idle.look()

    def open_and_look(part):
        return [path for path, watch in part if path.read_bytes() and watch.look()]

    with ThreadPoolExecutor(4) as pool:
        looking = pool.submit(look_on)
        missed = [*pool.map(open_and_look, (found[0::3], found[1::3], found[2::3]))]
        is_over.set()
        looking.result()
    assert missed == [[], [], []]
