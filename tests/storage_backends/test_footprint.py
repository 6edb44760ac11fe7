"""A footprint detects changes of a file by other programs, by the file's name and by its descriptor."""

import errno
import os

import pytest

from odradek.storage_backends.interface import StoreCorruptError
from odradek.storage_backends.lmdb_segments import footprint as module
from odradek.storage_backends.lmdb_segments.footprint import NAME_EVERY, WATCHED_FROM, Footprint
from odradek.storage_backends.lmdb_segments.inotify import FileWatches
from odradek.storage_backends.lmdb_segments.segment import EnvSettings, create_env


def put(value):
    def fill(txn, log):
        txn.put(b"k", value, db=log)

    return fill


@pytest.fixture
def path(tmp_path):
    """A segment's file."""
    path = tmp_path / "partition" / "0.lmdb"
    path.parent.mkdir()
    create_env(path, EnvSettings(1 << 20, synced=False, max_readers=2), put(bytes(20_000))).env.close()
    return path


@pytest.fixture
def watches():
    made = FileWatches()
    yield made
    made.close()


@pytest.fixture(params=["watched", "held", "by-name"])
def footprint(request, path, watches):
    made = Footprint(path, watches if request.param == "watched" else None)
    if request.param != "by-name":
        made.hold()
    for _ in range(WATCHED_FROM + 1):
        made.begin_write()
        made.end_write()
    yield made
    made.let_go()


class Calls:
    """`os`, whose calls that look at a file are counted."""

    def __init__(self):
        self.made = []

    def __getattr__(self, name):
        if name in {"stat", "fstat"}:
            self.made.append(name)
        return getattr(os, name)


def write(path, at=0, content=b"changed", *, cut_to=None):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)
        if cut_to is not None:
            file.truncate(cut_to)


def test_our_own_writes_are_none_of_others(footprint, path):
    for number in range(3 * NAME_EVERY):
        footprint.begin_write()
        write(path, at=path.stat().st_size, content=b"%d" % number)
        footprint.check()
        footprint.end_write()
        footprint.check()
    assert footprint.size_bytes == path.stat().st_size


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: os.truncate(path, 8192), "was cut short"),
        (lambda path: write(path, content=bytes(8192)), "is damaged"),
        (lambda path: path.unlink(), "was removed"),
        (lambda path: path.rename(path.with_suffix(".saved")), "was removed"),
        (lambda path: (path.rename(path.with_suffix(".saved")), path.write_bytes(b"other")), "was replaced"),
        (lambda path: path.with_suffix(".new").rename(path), "was replaced"),
    ],
    ids=["cut", "zeroed", "removed", "renamed", "replaced", "replaced-by-renaming"],
)
def test_changes_by_others_are_reported_by_the_next_check_and_all_later_ones(footprint, path, damage, message):
    path.with_suffix(".new").write_bytes(b"other")
    footprint.check()
    damage(path)
    for _ in range(3):
        with pytest.raises(StoreCorruptError, match=message):
            footprint.check()


def test_a_file_cut_short_during_a_write_is_reported(footprint, path):
    footprint.begin_write()
    write(path, cut_to=8192)
    with pytest.raises(StoreCorruptError, match="was cut short"):
        footprint.check()
    footprint.end_write()
    with pytest.raises(StoreCorruptError, match="was cut short"):
        footprint.check()


@pytest.mark.parametrize(
    "touch", [os.utime, lambda path: path.chmod(0o600), lambda path: os.link(path, f"{path}.link")]
)
def test_a_file_whose_content_stays_serves_on(footprint, path, touch):
    touch(path)
    for _ in range(2):
        footprint.check()


def test_a_moved_directory_is_reported_soon(footprint, path):
    footprint.check()
    path.parent.rename(path.parent.with_name("elsewhere"))

    def check_often():
        for _ in range(NAME_EVERY):
            footprint.check()

    with pytest.raises(StoreCorruptError, match="was removed"):
        check_often()


def test_a_held_file_is_seldom_looked_up_by_its_name(path, monkeypatch):
    held = Footprint(path)
    held.hold()
    names = []
    stat = os.stat
    monkeypatch.setattr(module.os, "stat", lambda at, **options: names.append(at) or stat(at, **options))
    for _ in range(NAME_EVERY):
        held.begin_write()
        held.end_write()
        held.check()
    assert names == [path]
    held.let_go()


def write_and_check(footprint, fd, times):
    for _ in range(times):
        footprint.begin_write()
        os.pwrite(fd, b"own", os.lseek(fd, 0, os.SEEK_END))
        footprint.end_write()
        footprint.check()


def test_the_times_of_a_watched_file_are_not_read_until_another_program_opens_it(path, watches, monkeypatch):
    fd = os.open(path, os.O_RDWR)
    watched = Footprint(path, watches)
    watched.hold()
    write_and_check(watched, fd, WATCHED_FROM + 1)
    monkeypatch.setattr(module, "os", calls := Calls())
    write_and_check(watched, fd, NAME_EVERY)
    assert calls.made == ["stat"]
    path.read_bytes()
    calls.made.clear()
    write_and_check(watched, fd, 3)
    assert "fstat" in calls.made
    assert watched.size_bytes == path.stat().st_size
    watched.let_go()
    watched.hold()
    write_and_check(watched, fd, 1)
    calls.made.clear()
    write_and_check(watched, fd, 1)
    assert calls.made == [], "a file that is opened again is watched anew"
    watched.let_go()
    os.close(fd)


def test_a_watched_file_that_was_overwritten_is_reported_after_many_writes_of_our_own(path, watches):
    fd = os.open(path, os.O_RDWR)
    watched = Footprint(path, watches)
    watched.hold()
    write_and_check(watched, fd, 3 * NAME_EVERY)
    write(path, content=bytes(8192))
    with pytest.raises(StoreCorruptError, match="is damaged"):
        watched.check()
    watched.let_go()
    os.close(fd)


def test_without_a_descriptor_it_is_looked_at_by_name(path, monkeypatch):
    def refuse(*_):
        raise OSError(24, "Too many open files")

    made = Footprint(path)
    monkeypatch.setattr(module.os, "open", refuse)
    made.hold()
    made.check()
    path.unlink()
    with pytest.raises(StoreCorruptError, match="was removed"):
        made.check()


def test_a_descriptor_closed_meanwhile_that_is_another_file_by_now(path, tmp_path, monkeypatch):
    """The race of a check with another thread that closes the segment: the file name decides."""
    made = Footprint(path)
    opened, open_file = [], os.open
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "open", lambda *given: opened.append(open_file(*given)) or opened[-1])
        made.hold()
    [fd] = opened
    (tmp_path / "other").write_bytes(bytes(100_000))
    with (tmp_path / "other").open("rb") as other:
        os.dup2(other.fileno(), fd)  # `fd` is not closed before: another thread could get it
    made.check()
    path.unlink()
    with pytest.raises(StoreCorruptError, match="was removed"):
        made.check()
    made.let_go()


def test_a_descriptor_closed_meanwhile(path, monkeypatch):
    made = Footprint(path)
    made.hold()

    def closed(*_):
        raise OSError(errno.EBADF, "Bad file descriptor")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fstat", closed)
        made.check()
        path.unlink()
        with pytest.raises(StoreCorruptError, match="was removed"):
            made.check()
    made.let_go()
