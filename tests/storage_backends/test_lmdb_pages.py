"""Specifics of reading and writing LMDB pages: shared environments, full maps, joined values."""

import logging
import subprocess
import sys
from dataclasses import replace
from pickle import PickleBuffer

import pytest
from linux_forms import libc_is_called, pages_are_lent

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy, OffsetNotInStoreError, StoreError
from odradek.storage_backends.lmdb_segments.segment import Segment
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.access import fill, joined, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY

_BIG = 2**31 - 1
OPTIONS = StoreOptions(map_slack_bytes=1 << 20, max_open_files=5, lending_map_bytes=0)


class Opener:
    """Opens one directory repeatedly."""

    def __init__(self, directory):
        self.directory = directory
        self.store = None

    def __call__(self, policy=LogPolicy(), **options):  # noqa: B008
        self.close()
        self.store = LmdbStore(self.directory, replace(OPTIONS, **options))
        return self.store.open(KEY, policy)

    def close(self):
        if self.store:
            self.store.close()


@pytest.fixture
def open_log(tmp_path):
    opener = Opener(tmp_path / "store")
    yield opener
    opener.close()


def open_environments(log):
    return sum(segment.is_open for segment in log.log.state.segments)


class TestSealedSegments:
    def test_only_a_few_stay_open(self, open_log):
        log = open_log(LogPolicy(segment_bytes=500))
        batches = fill(log, 40)
        for offset in (*range(40), 7, 3):
            assert read_all(log, offset).startswith(batches[offset].data)
        assert open_environments(log) <= 3

    @pages_are_lent
    def test_one_that_is_lent_is_not_closed(self, open_log):
        log = open_log(LogPolicy(segment_bytes=500))
        batches = fill(log, 40)
        leases = [(offset, log.read(offset, _BIG, 1)) for offset in range(0, 40, 3)]
        for offset, lease in leases:
            assert bytes(lease.chunks[0]) == batches[offset].data
        assert open_environments(log) > 10
        for _, lease in leases:
            lease.release()
        read_all(log, 0)
        assert open_environments(log) <= 3

    def test_none_is_opened_to_load_or_to_list(self, open_log):
        fill(open_log(LogPolicy(segment_bytes=500)), 40)
        log = open_log(LogPolicy(segment_bytes=500))
        log.load()
        assert len(log.segments()) > 10
        assert log.size_bytes() > 0
        assert open_environments(log) == 1

    def test_one_deleted_while_a_reader_is_on_the_way_to_it(self, open_log, monkeypatch):
        """The reader has chosen its segment, retries, and finds that the offset is deleted."""
        log = open_log(LogPolicy(segment_bytes=500))
        fill(log, 40)
        check, chosen = Segment.check, []

        def delete_and_check(segment):
            if not chosen:
                chosen.append(segment.path)
                log.commit([LogWrite(log_start_offset=30)], sync=True)
                assert not segment.path.exists()
            check(segment)

        monkeypatch.setattr(Segment, "check", delete_and_check)
        with pytest.raises(OffsetNotInStoreError):
            log.read(0, 10, 10)
        assert len(chosen) == 1


class TestLeases:
    @pages_are_lent
    def test_released_views_cannot_be_used_by_mistake(self, open_log):
        log = open_log()
        fill(log, 1)
        lease = log.read(0, _BIG, _BIG)
        view = lease.chunks[0]
        lease.release()
        assert lease.chunks == ()
        with pytest.raises(ValueError, match="released"):
            bytes(view)

    @pages_are_lent
    def test_pages_that_are_still_in_use_are_kept_and_complained_of(self, open_log, caplog):
        log = open_log()
        (batch,) = fill(log, 1)
        lease = log.read(0, _BIG, _BIG)
        in_use = PickleBuffer(lease.chunks[0])
        lease.release()
        log.close()
        assert "was released while its bytes were in use" in caplog.text
        assert bytes(in_use) == batch.data

    @pages_are_lent
    def test_beyond_the_limit_bytes_are_copied(self, open_log):
        log = open_log(max_leases_per_segment=4)
        (batch,) = fill(log, 1)
        leases = [log.read(0, _BIG, _BIG) for _ in range(9)]
        assert [type(lease).__name__ for lease in leases].count("CopyLease") == 5
        assert all(bytes(lease.chunks[0]) == batch.data for lease in leases)
        for lease in leases:
            lease.release()

    def test_closing_the_log_under_a_lease_does_not_unmap_it(self, open_log):
        log = open_log()
        (batch,) = fill(log, 1)
        lease = log.read(0, _BIG, _BIG)
        log.close()
        assert bytes(lease.chunks[0]) == batch.data
        lease.release()
        with pytest.raises(StoreError, match="closed"):
            log.read(0, _BIG, _BIG)

    def test_a_commit_is_not_lent_before_it_has_returned(self, open_log):
        """LMDB shows the commit slightly earlier."""
        log = open_log()
        (batch,) = fill(log, 1)
        before = log.log.state
        fill(log, 1, start=1)
        log.log.state = before
        assert read_all(log, 0) == batch.data
        assert read_all(log, 1) == b""
        assert log.find_by_timestamp(1001) is None


class TestMaps:
    def test_a_write_larger_than_the_map_gets_a_segment_of_its_own(self, open_log):
        log = open_log(LogPolicy(segment_bytes=1000))
        batches = [make_batch(n, payload=bytes([n]) * 900_000) for n in range(6)]
        log.commit([LogWrite(batches, producers={1: b"state"})], sync=True)
        assert [each.base_offset for each in log.segments()] == [0]
        got = b"".join(read_all(log, n, n + 1) for n in range(6))
        assert got == joined(batches)

    @pages_are_lent
    def test_a_held_lease_that_keeps_pages_from_reuse_only_leads_to_a_roll(self, open_log):
        log = open_log(LogPolicy(segment_bytes=4000))
        (first,) = fill(log, 1)
        lease = log.read(0, _BIG, _BIG)
        for n in range(400):
            log.commit([LogWrite(producers={n % 3: b"s" * 3000})], sync=False)
        assert len(log.segments()) == 2
        assert bytes(lease.chunks[0]) == first.data
        lease.release()
        assert log.load().producers == dict.fromkeys(range(3), b"s" * 3000)

    def test_batches_of_a_commit_are_joined(self, open_log):
        log = open_log(max_value_bytes=4080)
        batches = [make_batch(n, payload=b"x" * 500) for n in range(20)]
        log.commit([LogWrite(batches[:10]), LogWrite(batches[10:])], sync=False)
        lease = log.read(0, _BIG, _BIG)
        sizes = [len(chunk) for chunk in lease.chunks]
        lease.release()
        assert sum(sizes) == len(joined(batches))
        assert len(sizes) == 3
        assert max(sizes) <= 4080


def test_hot_is_what_was_written_lately(open_log):
    log = open_log(hot_bytes=1000)
    fill(log, 20)
    assert [log.is_hot(offset) for offset in (0, 10, 18, 20)] == [False, False, True, True]
    log = open_log()
    assert [log.is_hot(offset) for offset in (0, 19, 20)] == [False, False, True]
    fill(log, 1, start=20)
    assert log.is_hot(20)
    log.truncate(10)
    assert [log.is_hot(offset) for offset in (9, 10)] == [False, True]


@libc_is_called
def test_an_environment_takes_little_memory_also_after_others_were_closed(tmp_path):
    """LMDB's lists of 3 MB each must be fresh from the system, which glibc's default settings end after a while."""
    script = """if True:
        import sys
        from odradek.storage_backends.interface import LogPolicy
        from odradek.storage_backends.opener import open_store
        from odradek.storage_backends.testing.keys import KEY
        from odradek.partitions.model import PartitionKey
        def memory_kb():
            lines = open("/proc/self/status").read().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
        def open_all():
            store = open_store("lmdb://" + sys.argv[1])
            for n in range(40):
                store.open(PartitionKey("t", KEY.topic_id, n), LogPolicy())
            return store
        open_all().close()
        before = memory_kb()
        store = open_all()
        print((memory_kb() - before) / 40)
    """
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "many"], capture_output=True, check=True, text=True)
    assert float(done.stdout) < 100


def test_nothing_is_logged_in_ordinary_use(open_log, caplog):
    with caplog.at_level(logging.INFO):
        log = open_log(LogPolicy(segment_bytes=500))
        fill(log, 20)
        log.commit([LogWrite(log_start_offset=9)], sync=True)
        log.truncate(12)
    assert caplog.records == []
