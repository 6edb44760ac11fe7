"""The state of an LMDB store after a killed process, or after a crash within a roll or a truncation."""

import errno
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

import pytest

from odradek.partitions.model import AbortedTransaction, LogWrite
from odradek.storage_backends.interface import (
    LogPolicy,
    StoreCorruptError,
    StoreError,
    StoreFormatError,
    StoreFullError,
)
from odradek.storage_backends.lmdb_segments import cleaning, segment_log
from odradek.storage_backends.lmdb_segments.layout import META_KEY
from odradek.storage_backends.lmdb_segments.segment import EnvSettings, open_env
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.system import boot_id
from odradek.storage_backends.testing.access import contents, fill, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.records.batch import check_crc, iter_headers

SMALL_SEGMENTS = LogPolicy(segment_bytes=500)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def open_log(root, policy=SMALL_SEGMENTS):
    store = LmdbStore(root, StoreOptions(map_slack_bytes=4 << 20))
    return store, store.open(KEY, policy)


def copy_unless_gone(source, target):
    """Deleted files are unlinked in a separate thread; one unlinked during the copy counts as unlinked before."""
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        assert source.endswith(".deleted")


def partition_dir(root) -> Path:
    (directory,) = [each for each in root.iterdir() if each.is_dir()]
    return directory


def names(root):
    """The files of the log, without LMDB's lock file of a segment that is open."""
    return sorted(each.name for each in partition_dir(root).iterdir() if not each.name.endswith("-lock"))


class TestKill9:
    @pytest.mark.parametrize("mode", ["sync", "nosync"])
    def test_every_acknowledged_commit_is_there_in_order(self, root, mode):
        """Ten times over the same directory, at random moments, with continuous rolls and deletions."""
        random, acknowledged = Random(mode), 0
        for _ in range(10):
            acknowledged = max(acknowledged, self._run_and_kill(root, mode, random.randint(1, 60)))
            store, log = open_log(root, LogPolicy(durable=mode == "sync"))
            snapshot = log.load()
            assert snapshot.log_end_offset >= acknowledged
            for base, data in contents(log).items():
                expected = make_batch(base, 2, max_timestamp_ms=base, payload=b"%d" % base * (1 + base % 200))
                assert data == expected.data
            if mode == "sync" or boot_id():  # else the log was salvaged, with the batches only
                last = max(int(state) for state in snapshot.producers.values())
                assert last == snapshot.log_end_offset - 2
            store.close()
        assert acknowledged > 100

    def _run_and_kill(self, root, mode, after_lines) -> int:
        script = Path(__file__).with_name("committing_process.py")
        process = subprocess.Popen([sys.executable, script, f"lmdb://{root}", mode], stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(after_lines + 1)]
        process.kill()
        lines += process.stdout.readlines()
        process.stdout.close()
        process.wait()
        whole = [line for line in lines if line.endswith("\n")]
        return int(whole[-1].split()[-1])


class TestLeftovers:
    def test_half_made_segments_and_doomed_files_are_removed(self, root):
        store, log = open_log(root)
        fill(log, 10)
        before = log.load()
        store.close()
        directory = partition_dir(root)
        tidy = names(root)
        (directory / "00000000000000000099.lmdb.new").write_bytes(b"half a segment")
        (directory / "00000000000000000000.lmdb.7.deleted").write_bytes(b"doomed")
        (root / "orders-9.AAAAAAAAAAAAAAAAAAAAAA.new").mkdir()
        (root / "orders-8.AAAAAAAAAAAAAAAAAAAAAA.3.deleted").mkdir()
        store, log = open_log(root)
        assert log.load() == before
        assert names(root) == tidy
        assert list(store.partitions()) == [KEY]
        assert sorted(each.name for each in root.iterdir() if each.is_dir()) == [directory.name]
        store.close()

    def test_segments_below_the_log_start_whose_removal_did_not_happen(self, root, tmp_path):
        store, log = open_log(root)
        fill(log, 10)
        store.close()
        first = partition_dir(root) / "00000000000000000000.lmdb"
        shutil.copy(first, tmp_path / "kept")
        store, log = open_log(root)
        log.commit([LogWrite(log_start_offset=7)], sync=True)
        segments = list(log.segments())
        store.close()
        assert not first.exists()
        shutil.copy(tmp_path / "kept", first)
        store, log = open_log(root)
        assert list(log.segments()) == segments
        assert not first.exists()
        store.close()

    def test_a_truncation_that_was_decided_is_finished(self, root, tmp_path):
        """The crash comes when `<base>.truncated` exists and some later segments are already deleted."""
        store, log = open_log(root)
        fill(log, 20)
        store.close()
        shutil.copytree(root, tmp_path / "copy")
        store, log = open_log(root)
        log.truncate(8)
        expected = log.load(), contents(log)
        bases = [each.base_offset for each in log.segments()]
        store.close()
        copy = partition_dir(tmp_path / "copy")
        target = f"{bases[-1]:020d}"
        shutil.copy(partition_dir(root) / f"{target}.lmdb", copy / f"{target}.truncated")
        sorted(copy.glob("*.lmdb"))[-1].unlink()
        store, log = open_log(tmp_path / "copy")
        assert (log.load(), contents(log)) == expected
        assert [each.base_offset for each in log.segments()] == bases
        fill(log, 3, start=8)
        store.close()
        assert not (copy / f"{target}.truncated").exists()

    def test_a_truncation_that_was_not_decided_has_not_happened(self, root):
        store, log = open_log(root)
        fill(log, 20)
        before = log.load()
        store.close()
        (partition_dir(root) / "00000000000000000003.truncated.new").write_bytes(b"half a copy")
        store, log = open_log(root)
        assert log.load() == before
        assert len(contents(log)) == 20
        store.close()


class TestReplacement:
    """After a crash at any file operation of a replacement, the log is the old one or the new one."""

    @pytest.mark.parametrize("step", range(1, 9))
    def test_the_old_ones_or_the_new_one(self, root, tmp_path, step, monkeypatch):
        store, log = open_log(root)
        fill(log, 12)
        log.commit([LogWrite(aborted=[AbortedTransaction(1, 2, 3, 2)])], sync=True)
        before = (log.load(), sorted(contents(log)))
        draft = log.draft(0, 9)
        draft.add([make_batch(5, max_timestamp_ms=5)])
        draft.seal([])
        copies = []

        def copy_at(path, *_):
            copies.append(path)
            if len(copies) == step:
                shutil.copytree(root, tmp_path / "copy", copy_function=copy_unless_gone)

        self._before_each_operation(monkeypatch, copy_at)
        assert log.replace(draft)
        after = (log.load(), sorted(contents_from(log)))
        monkeypatch.undo()
        store.close()
        assert len(copies) >= step, "the replacement has fewer steps: lower the range"
        store, log = open_log(tmp_path / "copy")
        found = (log.load(), sorted(contents_from(log)))
        assert found == (before if step == 1 else after)
        assert not list((tmp_path / "copy").glob("*/*.cleaned"))
        fill(log, 2, start=12)
        store.close()

    def _before_each_operation(self, monkeypatch, call):
        for owner, name in (
            (os, "replace"),
            (segment_log, "sync_directory"),
            (cleaning, "sync_directory"),
            (cleaning, "adopt_cleaned"),
        ):
            original = getattr(owner, name)

            def wrapped(*arguments, _original=original, **named):
                call(arguments[0])
                return _original(*arguments, **named)

            monkeypatch.setattr(owner, name, wrapped)

    def test_readers_find_every_offset_while_segments_are_replaced(self, root):
        store, log = open_log(root)
        fill(log, 40)
        done = Event()

        def read_on():
            count = 0
            while not done.is_set() or not count:
                for offset in range(0, 40, 3):
                    chunk = read_all(log, offset)
                    first = next(iter_headers(chunk))
                    check_crc(chunk, first)
                    assert first.last_offset >= offset
                    assert log.find_by_timestamp(1000 + offset) >= offset
                    count += 1
            return count

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read_on) for _ in range(2)]
            try:
                for size in (3, 5, 9, 17, 33):
                    for base, end in self._runs(log, size):
                        draft = log.draft(base, end)
                        draft.add([make_batch(end - 1, max_timestamp_ms=1000 + end - 1)])
                        draft.seal([])
                        assert log.replace(draft)
            finally:
                done.set()
            assert min(reader.result() for reader in readers) > 0
        store.close()

    def _runs(self, log, size):
        ends = [info.end_offset for info in log.segments()[:-1]]
        bases = [info.base_offset for info in log.segments()[:-1]]
        for base in bases[:: max(size // 3, 1)]:
            fitting = [end for end in ends if base < end <= base + size]
            current = [info.base_offset for info in log.segments()[:-1]]
            if fitting and base in current:
                yield base, fitting[-1]

    def test_an_error_after_the_new_one_is_visible_fails_the_log_until_it_is_opened_again(self, root, monkeypatch):
        store, log = open_log(root)
        fill(log, 12)
        log.commit([LogWrite(aborted=[AbortedTransaction(1, 2, 3, 2)])], sync=True)
        draft = log.draft(0, 9)
        draft.add([make_batch(5, max_timestamp_ms=5)])
        draft.seal([])

        monkeypatch.setattr(segment_log, "sync_directory", raising(errno.EIO))
        with pytest.raises(StoreError):
            log.replace(draft)
        monkeypatch.undo()
        assert log.failed, "the replica must not keep the aborted transactions of the old segments"
        store.close()
        store, log = open_log(root)
        assert log.load().aborted == ()
        assert min(header.base_offset for header in iter_headers(read_all(log, 0))) == 5
        store.close()

    def test_a_full_disk_leaves_the_log_as_it_was(self, root, monkeypatch):
        store, log = open_log(root)
        fill(log, 12)
        draft = log.draft(0, 9)
        draft.seal([])

        monkeypatch.setattr(cleaning, "adopt_cleaned", raising(errno.ENOSPC))
        with pytest.raises(StoreFullError):
            log.replace(draft)
        draft.discard()
        monkeypatch.undo()
        assert not log.failed
        assert len(contents(log)) == 12
        fill(log, 2, start=12)
        store.close()
        store, log = open_log(root)
        assert len(contents(log)) == 14
        store.close()


def raising(number):
    """A function that fails with this errno."""

    def fail(*_):
        raise OSError(number, "failed")

    return fail


def contents_from(log):
    """The base offsets that a reader finds, with any gaps."""
    offset, end, found = log.load().log_start_offset, log.load().log_end_offset, []
    while offset < end:
        headers = list(iter_headers(read_all(log, offset)))
        found += [header.base_offset for header in headers]
        offset = headers[-1].next_offset
    return found


class TestDamage:
    def test_a_missing_sealed_segment(self, root):
        store, log = open_log(root)
        fill(log, 20)
        store.close()
        sorted(partition_dir(root).glob("*.lmdb"))[1].unlink()
        with pytest.raises(
            StoreCorruptError, match=r"lacks 0000000000000000000\d\.lmdb; in a cluster of one node, restore"
        ):
            self._open_and_close(root)

    def test_no_segment_at_all(self, root):
        store, _ = open_log(root)
        store.close()
        (partition_dir(root) / "00000000000000000000.lmdb").unlink()
        with pytest.raises(StoreCorruptError, match="has no segment"):
            self._open_and_close(root)

    def test_a_segment_full_of_something_else(self, root):
        store, _ = open_log(root)
        store.close()
        (partition_dir(root) / "00000000000000000000.lmdb").write_bytes(b"junk" * 5000)
        with pytest.raises(StoreCorruptError, match=r"000000\.lmdb|orders-0"):
            self._open_and_close(root)

    def test_a_segment_of_another_format(self, root):
        store, _ = open_log(root)
        store.close()
        settings = EnvSettings(1 << 24, synced=True, max_readers=10)
        handle = open_env(partition_dir(root) / "00000000000000000000.lmdb", settings)
        with handle.env.begin(write=True) as txn:
            txn.put(META_KEY, b"\x00\x63" + txn.get(META_KEY)[2:])
        handle.env.close()
        with pytest.raises(StoreFormatError, match="segment format 99; this version knows 1"):
            self._open_and_close(root)

    def _open_and_close(self, root):
        store = LmdbStore(root, StoreOptions())
        try:
            store.open(KEY, SMALL_SEGMENTS)
        finally:
            store.close()
