"""Files that another program has cut short, zeroed, filled with garbage or removed: an error, never a signal."""

import os
import subprocess
import sys
from contextlib import suppress
from random import Random

import lmdb
import pytest

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy, StoreCorruptError, StoreError
from odradek.storage_backends.lmdb_segments import inspection
from odradek.storage_backends.lmdb_segments.inspection import check_file
from odradek.storage_backends.lmdb_segments.layout import partition_dir_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.access import fill, joined, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY, SIBLING

PAGE = 4096
SMALL_SEGMENTS = LogPolicy(segment_bytes=2000)

READ_ALL = """
import sys, lmdb
for path in sys.argv[1:]:
    try:
        env = lmdb.open(path, subdir=False, map_size=1 << 28, max_dbs=2, lock=False)
        log = env.open_db(b"log", create=False)
        with env.begin() as txn:
            sum(len(value) for _, value in txn.cursor(db=log))
            sum(len(value) for _, value in txn.cursor())
        with env.begin(write=True) as txn:
            txn.put((10**6).to_bytes(8, "big"), b"x" * 5000, append=True, db=log)
            txn.put(b"m", b"y" * 60)
    except lmdb.Error:
        pass
    print(path, flush=True)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An LMDB file like a segment's, with trees of two levels, written in many transactions."""
    path = tmp_path_factory.mktemp("whole") / "whole.lmdb"
    with lmdb.open(str(path), subdir=False, map_size=1 << 26, max_dbs=2, lock=False, sync=False) as env:
        with env.begin(write=True) as txn:
            log = env.open_db(b"log", txn=txn)
        for number in range(150):
            with env.begin(write=True) as txn:
                txn.put(number.to_bytes(8, "big"), bytes(300 + number % 3 * 4000), append=True, db=log)
                txn.put(b"p%d" % (number % 100), bytes(60))
    return path.read_bytes()


class TestInspection:
    def test_a_whole_file_passes(self, whole, tmp_path):
        (tmp_path / "a").write_bytes(whole)
        check_file(tmp_path / "a")

    @pytest.mark.parametrize("size_bytes", [0, 1, PAGE, 2 * PAGE - 1, 2 * PAGE])
    def test_one_without_its_first_pages_does_not(self, whole, tmp_path, size_bytes):
        (tmp_path / "a").write_bytes(whole[:size_bytes])
        with pytest.raises(StoreCorruptError, match=rf"has {size_bytes} bytes|meta page"):
            check_file(tmp_path / "a")

    def test_one_that_was_cut_short_is_named_with_both_sizes(self, whole, tmp_path):
        (tmp_path / "a").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(
            StoreCorruptError,
            match=rf"it has {len(whole) // 2} bytes.* needs {len(whole)}; in a cluster of one node, restore",
        ):
            check_file(tmp_path / "a")

    @pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
    def test_what_is_no_file_is_named(self, tmp_path, make):
        make(tmp_path / "a.lmdb")
        with pytest.raises(
            StoreCorruptError,
            match=r"a\.lmdb is damaged: it is not a regular file; in a cluster of one node, restore it",
        ):
            check_file(tmp_path / "a.lmdb")

    @pytest.mark.parametrize("kind", ["zeroed", "garbage", "flipped", "cut"])
    def test_lmdb_survives_whatever_passes(self, whole, tmp_path, kind):
        """Every page in turn is damaged: the file is refused, or LMDB reads and writes it without crashing."""
        chance = Random(3)
        passed = []
        refused = 0
        for number in range(len(whole) // PAGE):
            path = tmp_path / str(number)
            path.write_bytes(damaged(whole, number, kind, chance))
            try:
                check_file(path)
            except StoreCorruptError:
                refused += 1
            else:
                passed.append(str(path))
        assert refused
        assert passed or kind == "cut"
        child = subprocess.run([sys.executable, "-c", READ_ALL, *passed], capture_output=True, text=True, check=False)
        assert (child.returncode, child.stdout.split()) == (0, passed), child.stderr[-500:]

    def test_a_short_file_is_looked_at_whole(self, whole, tmp_path, monkeypatch):
        """A file may be shorter than its last page if that page is free, so the pages in use decide."""
        monkeypatch.setattr(inspection, "MAX_PAGES", 1)
        (tmp_path / "a").write_bytes(whole[:-PAGE])
        with pytest.raises(StoreCorruptError, match="cut short"):
            check_file(tmp_path / "a")


def damaged(whole, number, kind, chance):
    start = number * PAGE
    if kind == "cut":
        return whole[:start]
    if kind == "flipped":
        start += chance.randrange(64)
        return whole[:start] + chance.randbytes(2) + whole[start + 2 :]
    new = bytes(PAGE) if kind == "zeroed" else chance.randbytes(PAGE)
    return whole[:start] + new + whole[start + PAGE :]


def cut(path):
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def empty(path):
    os.truncate(path, 0)


def zero(path):
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))


def garble(path):
    with path.open("r+b") as file:
        file.write(Random(1).randbytes(path.stat().st_size))


def remove(path):
    path.unlink()


def replace(path):
    content = path.read_bytes()
    path.rename(path.with_suffix(".saved"))
    path.write_bytes(content)


DAMAGES = [cut, empty, zero, garble, remove, replace]


@pytest.fixture
def store(tmp_path):
    opened = LmdbStore(tmp_path, StoreOptions(map_slack_bytes=1 << 20))
    yield opened
    with suppress(StoreCorruptError):  # of the damaged log, once more
        opened.close()


def segments(root):
    return sorted((root / partition_dir_name(KEY)).glob("*.lmdb"))


class TestWhileOpen:
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_the_active_segment(self, store, tmp_path, damage):
        log, other = store.open(KEY, SMALL_SEGMENTS), store.open(SIBLING, SMALL_SEGMENTS)
        fill(log, 20)
        fill(other, 3)
        path = segments(tmp_path)[-1]
        damage(path)
        for call in (lambda: fill(log, 1, start=20), lambda: read_all(log, 19), log.load, lambda: log.truncate(19)):
            with pytest.raises(StoreCorruptError, match=rf"{path.name}.* in a cluster of one node, restore"):
                call()
        fill(other, 3, start=3)
        assert len(read_all(other, 0)) > 0

    @pytest.mark.parametrize("damage", DAMAGES)
    @pytest.mark.parametrize("is_open", [True, False])
    def test_a_sealed_segment(self, store, tmp_path, damage, is_open):
        log = store.open(KEY, SMALL_SEGMENTS)
        batches = fill(log, 20)
        if is_open:
            read_all(log, 0)
        path = segments(tmp_path)[0]
        damage(path)
        if damage is not replace or is_open:  # a replaced file with the same content is valid if it is not open
            with pytest.raises(StoreError, match=rf"{path.name}"):
                read_all(log, 0)
        fill(log, 1, start=20)
        assert read_all(log, 19).startswith(batches[19].data)

    @pytest.mark.parametrize("durable", [True, False])
    def test_closing_tells_of_it_and_closes_all(self, store, tmp_path, durable):
        policy = LogPolicy(durable=durable)
        log, other = store.open(KEY, policy), store.open(SIBLING, policy)
        fill(log, 3)
        batches = fill(other, 3)
        path = segments(tmp_path)[0]
        path.unlink()
        with pytest.raises(StoreCorruptError, match=rf"{path.name} was removed"):
            store.close()
        again = LmdbStore(tmp_path, StoreOptions())
        assert read_all(again.open(SIBLING, policy), 0) == joined(batches)
        again.close()

    def test_a_lease_outlives_the_damage_and_the_next_is_refused(self, store, tmp_path):
        log = store.open(KEY, LogPolicy())
        fill(log, 3)
        lease = log.read(0, 3, 1 << 20)
        segments(tmp_path)[0].unlink()
        assert lease.size_bytes
        lease.release()
        with pytest.raises(StoreCorruptError, match="was removed while the broker used it"):
            log.read(0, 3, 1 << 20)

    def test_a_file_that_was_only_touched_serves_on(self, store, tmp_path):
        log = store.open(KEY, SMALL_SEGMENTS)
        batches = fill(log, 20)
        read_all(log, 0)
        for path in segments(tmp_path):
            os.utime(path)
        assert read_all(log, 0).startswith(batches[0].data)
        batches += fill(log, 3, start=20)
        assert read_all(log, 22) == joined(batches[22:])


class TestWhileClosed:
    @pytest.mark.parametrize("damage", [cut, empty, zero, garble])
    def test_the_active_segment(self, store, tmp_path, damage):
        log = store.open(KEY, SMALL_SEGMENTS)
        fill(log, 20)
        log.close()
        damage(segments(tmp_path)[-1])
        before = {path: path.read_bytes() for path in segments(tmp_path)}
        with pytest.raises(StoreCorruptError, match=r"\.lmdb is damaged: .*; in a cluster of one node, restore"):
            store.open(KEY, SMALL_SEGMENTS)
        assert {path: path.read_bytes() for path in segments(tmp_path)} == before

    def test_files_of_others_in_a_partition_s_directory(self, store, tmp_path):
        log = store.open(KEY, SMALL_SEGMENTS)
        batches = fill(log, 20)
        log.close()
        path = segments(tmp_path)[0]
        for name in ("00000000000000000000 (copy).lmdb", "backup.lmdb", "x.truncated", "y.cleaned"):
            path.with_name(name).write_bytes(b"junk")
        assert read_all(store.open(KEY, SMALL_SEGMENTS), 0).startswith(batches[0].data)

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe garbage", b"another boot"])
    @pytest.mark.processes  # the store checks a damaged file in a process of its own
    def test_a_damaged_marker_of_unsynced_writes(self, store, tmp_path, content):
        log = store.open(KEY, LogPolicy(durable=False))
        batches = [make_batch(n, max_timestamp_ms=1000 + n, payload=b"p") for n in range(5)]
        log.commit([LogWrite(batches)], sync=False)
        log.close()
        path = tmp_path / partition_dir_name(KEY) / "00000000000000000000.unsynced"
        path.write_bytes(content)
        assert read_all(store.open(KEY, LogPolicy(durable=False)), 0).startswith(batches[0].data)
