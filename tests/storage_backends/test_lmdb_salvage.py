"""What a salvage of a segment that was written without syncs keeps, and what it must not keep."""

import errno
import shutil
from contextlib import contextmanager, suppress
from struct import Struct

import lmdb
import pytest
from system_crash import OPTIONS, PAGE_CACHE, after_a_crash, directory, reopened

from odradek.partitions.model import EpochStart, LogWrite
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.lmdb_segments import segment_log
from odradek.storage_backends.lmdb_segments.layout import GAPS, LOG_DB, U64, segment_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.testing.access import base_offsets, contents
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY

pytestmark = pytest.mark.processes  # the store checks a damaged file in a process of its own

PAGE = 4096
OVERFLOW_PAGES = Struct("<10xHI")
OVERFLOW = 4
"""The flags of pages with one large value; the number of these pages follows them."""


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def batch_at(offset, size_bytes=3000):
    return make_batch(offset, payload=b"p" * size_bytes, leader_epoch=offset // 20)


def copy_of(*offsets, size_bytes=3000):
    """A write of a follower, or of an import: a batch at each of the offsets."""
    return LogWrite([batch_at(offset, size_bytes) for offset in offsets], replicated=True)


def salvaged(root, fill_log, damage=lambda path: None):
    """The base offsets of the batches that are left after the crash, and the snapshot."""
    after_a_crash(root, fill_log, damage)
    store, log = reopened(root)
    found = base_offsets(log), log.load()
    store.close()
    return found


@contextmanager
def editing(path):
    """A transaction on a segment's file that no store has open."""
    env = lmdb.open(str(path), subdir=False, max_dbs=2, lock=False)
    with env.begin(write=True) as txn:
        yield txn, env.open_db(LOG_DB, txn=txn)
    env.close()


def fill_with_gaps(log, size_bytes=3000):
    """With 3,000 bytes each batch is a value of the log."""
    log.commit([copy_of(2, 3, size_bytes=size_bytes), copy_of(5, size_bytes=size_bytes)], sync=False)
    assert log.commit_at_once([copy_of(6, 9, 10, 12, size_bytes=size_bytes)])
    log.commit([LogWrite([batch_at(13, size_bytes)])], sync=False)
    log.commit([copy_of(30, 31, size_bytes=size_bytes)], sync=False)
    log.commit([copy_of(44, size_bytes=size_bytes)], sync=False)


class TestGaps:
    @pytest.mark.parametrize("size_bytes", [100, 3000])
    def test_those_that_were_written_are_no_loss(self, root, size_bytes):
        kept, snapshot = salvaged(root, lambda log: fill_with_gaps(log, size_bytes))
        assert kept == [2, 3, 5, 6, 9, 10, 12, 13, 30, 31, 44]
        assert (snapshot.log_start_offset, snapshot.log_end_offset) == (0, 45)
        assert snapshot.epochs == (EpochStart(0, 2), EpochStart(1, 30), EpochStart(2, 44))

    def test_one_where_a_segment_begins(self, root):
        def fill_segments(log):
            log.commit([copy_of(0, 1)], sync=False)
            log.configure(LogPolicy(segment_bytes=4000, durable=False))
            log.commit([copy_of(7)], sync=False)
            assert [each.base_offset for each in log.segments()] == [0, 2]

        kept, _ = salvaged(root, fill_segments)
        assert kept == [0, 1, 7]

    @pytest.mark.parametrize(
        ("lost", "kept"),
        [
            ([2], []),
            ([3], [2]),
            ([5], [2, 3]),
            ([6, 9], [2, 3, 5]),
            ([13], [2, 3, 5, 6, 9, 10, 12]),
            ([31], [2, 3, 5, 6, 9, 10, 12, 13, 30]),
            ([5, 6, 9, 10, 12, 13, 30, 31], [2, 3]),
        ],
    )
    def test_one_where_batches_are_lost_ends_the_log(self, root, lost, kept):
        def lose(path):
            with editing(path) as (txn, log):
                for offset in lost:
                    txn.delete(U64.pack(offset), db=log)

        assert salvaged(root, fill_with_gaps, lose)[0] == kept

    def test_one_whose_row_is_damaged_ends_the_log(self, root):
        def damage(path):
            with editing(path) as (txn, _):
                for key, value in rows(txn, GAPS):
                    txn.put(key, bytes([value[0] ^ 1]) + value[1:])

        assert salvaged(root, fill_with_gaps, damage)[0] == []

    def test_those_of_a_log_that_is_written_with_syncs_take_no_space(self, root):
        store = LmdbStore(root, OPTIONS)
        store.open(KEY, LogPolicy()).commit([copy_of(2, 5)], sync=True)
        store.close()
        with editing(directory(root) / segment_name(0)) as (txn, _):
            assert not rows(txn, GAPS)


def files_of(root):
    return {path.stat().st_ino: path.read_bytes() for path in directory(root).glob("*.lmdb")}


def after_a_power_cut(root, copy, before):
    """Copy a store that is open as a power cut leaves it, without some of the pages written since `before`: a batch has
    its earlier content if another one had the same offset on the same pages.
    """
    shutil.copytree(root, copy)
    for marker in directory(copy).glob("*.unsynced"):
        marker.write_text("00000000-another-boot")
        segment = marker.with_suffix(".lmdb").name
        old = before.get((directory(root) / segment).stat().st_ino, b"")
        now = bytearray((directory(copy) / segment).read_bytes())
        for begin in range(0, len(now), PAGE):
            flags, count = OVERFLOW_PAGES.unpack_from(now, begin)
            end = begin + count * PAGE
            if flags == OVERFLOW and now[begin : begin + 24] == old[begin : begin + 24]:  # the header, and the offset
                now[begin:end] = old[begin:end]
        (directory(copy) / segment).write_bytes(now)
    return reopened(copy)


@pytest.mark.parametrize(("kept", "dropped", "size_bytes"), [(0, 40, 15_000), (10, 50, 60_000)])
class TestTruncation:
    """Without the power cut the batches that are dropped have other content than those written in their place."""

    def write(self, log, start, count, content, size_bytes):
        for offset in range(start, start + count):
            log.commit([LogWrite([make_batch(offset, payload=content * (size_bytes // 3))])], sync=False)

    def opened(self, root, kept, dropped, size_bytes):
        store = LmdbStore(root, OPTIONS)
        log = store.open(KEY, PAGE_CACHE)
        self.write(log, 0, kept, b"old", size_bytes)
        self.write(log, kept, dropped, b"OLD", size_bytes)
        return store, log

    def test_batches_that_were_dropped_do_not_come_back(self, root, tmp_path, kept, dropped, size_bytes):
        store, log = self.opened(root, kept, dropped, size_bytes)
        log.truncate(kept)
        before = files_of(root)
        self.write(log, kept, dropped, b"NEW", size_bytes)
        after, log = after_a_power_cut(root, tmp_path / "after", before)
        assert not [offset for offset, batch in contents(log).items() if b"OLD" in batch]
        assert log.load().log_end_offset == kept + dropped
        after.close()
        store.close()

    @pytest.mark.parametrize("call", ["create_env", "sync_directory"])
    def test_nor_after_a_truncation_that_did_not_end(
        self, root, tmp_path, kept, dropped, size_bytes, call, monkeypatch
    ):
        """It fails in one process; another is killed there."""
        store, log = self.opened(root, kept, dropped, size_bytes)

        def fail(*_):
            shutil.copytree(root, tmp_path / "killed", dirs_exist_ok=True)
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(segment_log, call, fail)
            with pytest.raises(StoreError):
                log.truncate(kept)
        with suppress(StoreError):
            log.close()
        stores = [store, LmdbStore(tmp_path / "killed", OPTIONS)]
        for number, each in enumerate(stores):
            at = (root, tmp_path / "killed")[number]
            log = each.open(KEY, PAGE_CACHE)
            assert base_offsets(log) == list(range(kept))
            before = files_of(at)
            self.write(log, kept, dropped, b"NEW", size_bytes)
            after, log = after_a_power_cut(at, tmp_path / f"after-{number}", before)
            assert not [offset for offset, batch in contents(log).items() if b"OLD" in batch]
            assert log.load().log_end_offset == kept + dropped
            after.close()
            each.close()


class TestDamagedPages:
    def test_one_that_ends_the_process_that_salvages_leaves_what_comes_before_it(self, root, caplog):
        """LMDB ends the process at a page of the log that is not one of its pages."""

        def lose_page(path):
            content = bytearray(path.read_bytes())
            begin = content.index(batch_at(100, 600).data) // PAGE * PAGE
            content[begin : begin + PAGE] = bytes(PAGE)
            path.write_bytes(content)

        def fill_pages(log):
            for offset in range(200):
                log.commit([LogWrite([batch_at(offset, 600)])], sync=False)

        kept, snapshot = salvaged(root, fill_pages, lose_page)
        assert kept == list(range(snapshot.log_end_offset))
        assert 90 < snapshot.log_end_offset <= 100
        assert caplog.text.count("stopped at") == 1


def rows(txn, prefix):
    return [(key, value) for key, value in txn.cursor() if key[:1] == prefix]
