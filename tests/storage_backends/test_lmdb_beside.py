"""Logs read from their files, beside the store that writes them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.partitions.model import AbortedTransaction, EpochStart, LogWrite
from odradek.storage_backends.interface import LogPolicy, StoreCorruptError, StoreFormatError
from odradek.storage_backends.lmdb_segments import beside
from odradek.storage_backends.lmdb_segments.beside import LogGoneError, LogView, SegmentGoneError, logs_in
from odradek.storage_backends.lmdb_segments.layout import partition_dir_name, segment_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.access import fill, joined, replace_run
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.records.batch import check_crc, iter_headers
from tests.long_form import rounds

SMALL = LogPolicy(segment_bytes=2000)
OPTIONS = StoreOptions(max_value_bytes=4080, time_index_interval_bytes=500, map_slack_bytes=1 << 20)


@pytest.fixture
def store(tmp_path):
    store = LmdbStore(tmp_path / "store", OPTIONS)
    yield store
    store.close()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "store" / partition_dir_name(KEY)


def values(view, start=0, end=2**62, since_ms=None):
    return b"".join(value for _, value in view.values(start, end, since_ms))


class TestAView:
    def test_of_a_new_log_is_empty(self, store, directory):
        store.open(KEY, SMALL)
        with LogView.open(directory) as view:
            assert (view.log_start_offset, view.log_end_offset) == (0, 0)
            assert values(view) == b""

    @pytest.mark.parametrize("size_bytes", [100, 1900, 30_000])
    def test_shows_what_the_store_shows(self, store, directory, size_bytes):
        log = store.open(KEY, SMALL)
        batches = fill(log, 60, size_bytes=size_bytes)
        log.commit(
            [
                LogWrite(
                    epochs=[EpochStart(0, 0)],
                    producers={7: b"state"},
                    aborted=[AbortedTransaction(7, 1, 4, 5)],
                )
            ],
            sync=True,
        )
        with LogView.open(directory) as view:
            assert view.segments == tuple(log.segments())
            assert values(view) == joined(batches)
            assert values(view, 17, 43) == joined(batches[17:43])
            assert view.producers == log.load().producers == {7: b"state"}
            assert view.aborted == log.load().aborted

    def test_stays_as_it_was(self, store, directory):
        log = store.open(KEY, LogPolicy(segment_bytes=1 << 20))
        batches = fill(log, 30)
        with LogView.open(directory) as view:
            fill(log, 200, start=30)
            assert view.log_end_offset == 30
            assert values(view) == joined(batches)

    def test_of_a_thousand_rows_and_batches(self, store, directory):
        log = store.open(KEY, LogPolicy(segment_bytes=1 << 30))
        batches = [make_batch(n, max_timestamp_ms=n, payload=b"p" * 3000) for n in range(3000)]
        log.commit([LogWrite(batches, producers={n: b"%d" % n * 20 for n in range(3000)})], sync=True)
        with LogView.open(directory) as view:
            assert view.producers == log.load().producers
            assert values(view) == joined(batches)
            assert values(view, 1234, 1235) == bytes(batches[1234].data)

    def test_begins_at_the_log_start(self, store, directory):
        log = store.open(KEY, SMALL)
        fill(log, 60)
        log.commit([LogWrite(log_start_offset=33)], sync=True)
        with LogView.open(directory) as view:
            assert view.log_start_offset == 33
            assert view.segments == tuple(log.segments())
            assert [header.base_offset for header in iter_headers(values(view, 33))] == list(range(33, 60))

    def test_of_another_partition_is_an_error(self, tmp_path):
        with pytest.raises(LogGoneError, match="deleted"):
            LogView.open(tmp_path / "missing")


class TestSince:
    def test_leaves_out_nothing_that_is_as_new(self, store, directory):
        log = store.open(KEY, LogPolicy(segment_bytes=20_000))
        fill(log, 400)
        with LogView.open(directory) as view:
            for offset in (0, 1, 57, 180, 399):
                found = [header.base_offset for header in iter_headers(values(view, since_ms=1000 + offset))]
                assert found[-1] == 399
                assert found[0] <= offset

    def test_reads_little_of_what_is_older(self, store, directory):
        log = store.open(KEY, LogPolicy(segment_bytes=20_000))
        fill(log, 400)
        sealed = log.segments()[0]
        late = sealed.end_offset - 5
        with LogView.open(directory) as view:
            found = [header.base_offset for header in iter_headers(values(view, since_ms=1000 + late))]
        assert found[0] > sealed.base_offset + 50


class TestASegmentThatWent:
    def test_is_an_error(self, store, directory):
        log = store.open(KEY, SMALL)
        fill(log, 60)
        with LogView.open(directory) as view:
            log.commit([LogWrite(log_start_offset=50)], sync=True)
            with pytest.raises(SegmentGoneError):
                values(view)
            assert [header.base_offset for header in iter_headers(values(view, 50))] == list(range(50, 60))

    def test_stays_readable_once_it_is_open(self, store, directory):
        log = store.open(KEY, SMALL)
        batches = fill(log, 60)
        with LogView.open(directory) as view:
            walk = view.values(0, view.segments[0].end_offset)
            found = [next(walk)[1]]
            log.commit([LogWrite(log_start_offset=60)], sync=True)
            found += [value for _, value in walk]
        assert b"".join(found) == joined(batches[: view.segments[0].end_offset])

    def test_for_a_compacted_one_is_an_error_to_views_taken_before(self, store, directory):
        log = store.open(KEY, SMALL)
        fill(log, 60)
        run = log.segments()[:2]
        with LogView.open(directory) as view:
            replace_run(log, 0, run[-1].end_offset, [3, 5])
            with pytest.raises(SegmentGoneError):
                values(view)
        with LogView.open(directory) as view:
            left = [header.base_offset for header in iter_headers(values(view))]
        assert left == [3, 5, *range(run[-1].end_offset, 60)]

    def test_for_a_compacted_one_that_has_not_its_name_yet_is_found(self, store, directory):
        log = store.open(KEY, SMALL)
        fill(log, 60)
        run = log.segments()[:2]
        replace_run(log, 0, run[-1].end_offset, [3, 5])
        store.close()
        path = directory / segment_name(0)
        path.rename(path.with_suffix(".cleaned"))
        with LogView.open(directory) as view:
            left = [header.base_offset for header in iter_headers(values(view))]
        assert left == [3, 5, *range(run[-1].end_offset, 60)]


class TestADamagedFile:
    @pytest.mark.parametrize("at", [0, 1])
    def test_is_an_error_that_names_it(self, store, directory, at):
        log = store.open(KEY, SMALL)
        fill(log, 60)
        path = directory / segment_name(log.segments()[-at].base_offset)
        store.close()
        content = bytearray(path.read_bytes())
        content[8192:] = b"\xaa" * (len(content) - 8192)
        path.write_bytes(content)
        with pytest.raises(StoreCorruptError, match=str(path)), LogView.open(directory) as view:
            values(view)

    def test_cut_short_is_an_error(self, store, directory):
        log = store.open(KEY, SMALL)
        fill(log, 60, size_bytes=1500)
        path = directory / segment_name(0)
        store.close()
        path.write_bytes(path.read_bytes()[:9000])
        with pytest.raises(StoreCorruptError, match=str(path)), LogView.open(directory) as view:
            values(view)


class TestLogsIn:
    def test_finds_the_partitions(self, store, tmp_path, directory):
        store.open(KEY, SMALL)
        assert logs_in(tmp_path / "store") == {KEY: directory}

    def test_refuses_another_directory(self, tmp_path):
        with pytest.raises(StoreFormatError, match="not a data directory"):
            logs_in(tmp_path)
        (tmp_path / "format").write_text("odradek-lmdb 99")
        with pytest.raises(StoreFormatError, match="odradek-lmdb 99"):
            logs_in(tmp_path)


@pytest.fixture
def writer(tmp_path):
    command = [sys.executable, "-m", "tests.storage_backends.log_writer", str(tmp_path / "store"), "3000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    yield process
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.torture
def test_beside_a_quick_writer_every_view_is_whole(writer, tmp_path):
    assert writer.stdout.readline() == b"begun\n"
    directory = tmp_path / "store" / partition_dir_name(KEY)
    ends, begin, views = set(), 0, 0
    while len(ends) < rounds(150, 1000):
        views += 1
        begin = begin if views % 100 else max(begin - 10_000, 0)
        with LogView.open(directory) as view:
            assert joined_end(values(view, begin, view.log_end_offset), begin) == view.log_end_offset
            newest = max(int(state[: len(state) // 5]) for state in view.producers.values())
            assert newest == view.log_end_offset, "rows and batches are of one transaction"
            begin = max(view.log_end_offset - 50, 0)
            ends.add(view.log_end_offset)
        assert writer.poll() is None


def joined_end(content, offset):
    """Checks that the batches are consecutive and `offset` lies in the first; returns the offset after them."""
    for header in iter_headers(content):
        check_crc(content, header)
        assert header.base_offset <= offset <= header.last_offset
        offset = header.next_offset
    return offset


def test_a_transaction_that_was_written_over_meanwhile_is_read_again(store, directory, monkeypatch):
    log = store.open(KEY, LogPolicy(segment_bytes=1 << 20))
    fill(log, 30)
    copy, attempts = beside.copy_replaceable, []

    def copy_slowly(pages):
        copy(pages)
        attempts.append(pages.meta.txn_id)
        if len(attempts) < 3:
            fill(log, 5, start=25 + 5 * len(attempts))

    monkeypatch.setattr(beside, "copy_replaceable", copy_slowly)
    with LogView.open(directory) as view:
        assert view.log_end_offset == 40
        assert len(attempts) == 3
        assert len(list(iter_headers(values(view)))) == 40
