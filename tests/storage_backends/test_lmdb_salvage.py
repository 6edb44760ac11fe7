"""What a salvage of a segment that was written without syncs keeps, and what it must not keep."""

from contextlib import contextmanager

import lmdb
import pytest
from system_crash import OPTIONS, after_a_crash, directory, reopened

from odradek.partitions.model import EpochStart, LogWrite
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.lmdb_segments.layout import GAPS, LOG_DB, U64, segment_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.testing.access import base_offsets
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY

PAGE = 4096


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
