"""Ranges of offsets read from a log's files, beside the store that writes them."""

from dataclasses import replace
from pathlib import Path

import pytest

from odradek.partitions.model import AbortedTransaction, LogWrite, StoredBatch
from odradek.pipeline.segments import options, reading
from odradek.pipeline.segments.offsets import Planner
from odradek.pipeline.segments.reading import DamagedBatchError, DataLossError, Range, Reading, read_range
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.lmdb_segments.layout import partition_dir_name, segment_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.records.batch import Codec, parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker

LENIENT = Reading(fails_on_loss=False)


def stored(batch):
    header = parse_header(batch)
    return StoredBatch(header.base_offset, header.last_offset, header.max_timestamp, batch)


def record_batch(offset, count=3, **options):
    records = [SimpleRecord(b"k%d" % n, b"v%d" % n, 1000 + n) for n in range(offset, offset + count)]
    return stored(build_batch(records, base_offset=offset, **options))


@pytest.fixture
def store(tmp_path):
    store = LmdbStore(tmp_path / "store", StoreOptions(map_slack_bytes=1 << 20))
    yield store
    store.close()


@pytest.fixture
def log(store):
    return store.open(KEY, LogPolicy(segment_bytes=400))


@pytest.fixture
def whole(tmp_path):
    return Range("orders", 0, str(tmp_path / "store" / partition_dir_name(KEY)), 0, 60)


def commit(log, *batches, **more):
    for batch in batches:
        log.commit([LogWrite([batch], **more)], sync=True)


def fill(log, count=20):
    commit(log, *[record_batch(3 * n) for n in range(count)])


def offsets(wanted, how=Reading()):  # noqa: B008
    return [offset for batch in read_range(wanted, how) for offset in batch.column("offset").to_pylist()]


class TestARange:
    def test_is_read_over_all_segments_and_the_active_one(self, log, whole):
        fill(log)
        assert len(log.segments()) > 4
        (first, *_), rows = zip(*[(batch, batch.to_pylist()) for batch in read_range(whole, Reading())], strict=True)
        rows = [row for found in rows for row in found]
        assert [row["offset"] for row in rows] == list(range(60))
        assert rows[7]["key"] == b"k7"
        assert {row["topic"] for row in rows} == {"orders"}
        assert first.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]

    @pytest.mark.parametrize(("start", "end"), [(0, 1), (1, 2), (4, 17), (58, 60), (7, 7)])
    def test_may_begin_and_end_inside_batches(self, log, whole, start, end):
        fill(log)
        assert offsets(replace(whole, start=start, end=end)) == list(range(start, end))

    @pytest.mark.parametrize("codec", Codec)
    def test_of_every_codec(self, log, whole, codec):
        commit(log, *[record_batch(20 * n, 20, codec=codec) for n in range(3)])
        assert offsets(whole) == list(range(60))

    def test_is_given_in_batches_of_bounded_size(self, log, whole, monkeypatch):
        monkeypatch.setattr(reading, "BATCH_BYTES", 200)
        fill(log)
        sizes = [batch.num_rows for batch in read_range(whole, Reading())]
        assert sum(sizes) == 60
        assert max(sizes) < 20


class TestTransactions:
    @pytest.fixture
    def log(self, store):
        log = store.open(KEY, LogPolicy(segment_bytes=600))
        commit(
            log, record_batch(0), record_batch(3, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        )
        commit(log, record_batch(6, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
        marker = end_transaction_marker(
            base_offset=9, producer_id=7, producer_epoch=0, committed=False, coordinator_epoch=0, timestamp_ms=5
        )
        commit(log, stored(marker), aborted=[AbortedTransaction(7, 3, 9, 6)])
        commit(log, record_batch(10, producer_id=7, producer_epoch=0, base_sequence=3, transactional=True))
        return log

    def test_aborted_records_and_markers_are_left_out(self, log, whole):
        assert offsets(replace(whole, end=13)) == [0, 1, 2, 6, 7, 8, 10, 11, 12]

    def test_uncommitted_reads_see_all_but_markers(self, log, whole):
        assert offsets(replace(whole, end=13), Reading(committed=False)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]


class TestCompaction:
    def replace_first_two(self, log):
        first, second = log.segments()[:2]
        draft = log.draft(first.base_offset, second.end_offset)
        draft.add([record_batch(second.base_offset, 1)])
        draft.seal([])
        assert log.replace(draft)
        draft.discard()
        return second.base_offset, second.end_offset

    def test_leaves_gaps(self, log, whole):
        fill(log)
        kept, end = self.replace_first_two(log)
        assert offsets(whole) == [kept, *range(end, 60)]

    def test_while_reading_the_rest_comes_from_what_took_the_place(self, log, whole, monkeypatch):
        monkeypatch.setattr(reading, "BATCH_BYTES", 1)
        fill(log)
        read = read_range(whole, Reading())
        found = next(read).column("offset").to_pylist()
        kept, end = self.replace_first_two(log)
        found += [offset for batch in read for offset in batch.column("offset").to_pylist()]
        # the first segment was open; the second is read in its current form
        assert found == [*range(kept + 1), *range(end, 60)]


class TestLoss:
    def test_of_offsets_before_the_read_is_an_error(self, log, whole):
        fill(log)
        log.commit([LogWrite(log_start_offset=30)], sync=True)
        with pytest.raises(DataLossError, match=r"orders-0: offsets 0 to 30 were deleted.*failOnDataLoss"):
            offsets(whole)
        assert offsets(whole, LENIENT) == list(range(30, 60))

    def test_of_segments_during_the_read_is_an_error(self, log, whole, monkeypatch):
        monkeypatch.setattr(reading, "BATCH_BYTES", 1)
        fill(log)
        read = read_range(whole, Reading())
        next(read)
        second = log.segments()[1].base_offset
        log.commit([LogWrite(log_start_offset=45)], sync=True)
        with pytest.raises(DataLossError, match=f"offsets {second} to 45 were deleted: the log now starts at 45"):
            list(read)

    def test_that_is_skipped_leaves_the_rest(self, log, whole, monkeypatch):
        monkeypatch.setattr(reading, "BATCH_BYTES", 1)
        fill(log)
        read = read_range(whole, LENIENT)
        found = next(read).column("offset").to_pylist()
        second = log.segments()[1].base_offset
        log.commit([LogWrite(log_start_offset=45)], sync=True)
        found += [offset for batch in read for offset in batch.column("offset").to_pylist()]
        assert found == [*range(second), *range(45, 60)]

    def test_of_the_topic_is_an_error(self, store, log, whole):
        fill(log)
        log.close()
        store.delete(KEY)
        with pytest.raises(DataLossError, match=r"offsets 0 to 60 are gone.*deleted"):
            offsets(whole)
        assert offsets(whole, LENIENT) == []

    def test_of_the_end_is_an_error(self, log, whole):
        fill(log, 10)
        with pytest.raises(DataLossError, match="offsets 30 to 60 are not there"):
            offsets(whole)
        assert offsets(whole, LENIENT) == list(range(30))

    def test_of_a_file_that_the_log_still_names_is_an_error(self, store, log, whole):
        fill(log)
        second = log.segments()[1]
        store.close()
        (Path(whole.directory) / segment_name(second.base_offset)).unlink()
        with pytest.raises(StoreError, match="removed or replaced"):
            offsets(whole, LENIENT)

    def test_that_begins_at_a_time_in_such_a_file_is_an_error(self, store, log, whole):
        fill(log)
        second = log.segments()[1]
        store.close()
        directory = Path(whole.directory)
        (directory / segment_name(second.base_offset)).unlink()
        since = str(1000 + second.base_offset)
        given = {"path": str(directory.parent), "subscribe": "orders", "startingTimestamp": since}
        with pytest.raises(StoreError, match="removed or replaced"):
            Planner(options.parse(given, streaming=False)).ranges()


@pytest.mark.parametrize("end", [3, 60])
def test_a_batch_that_was_changed_on_disk_is_refused(store, log, whole, end):
    fill(log)
    store.close()
    path = Path(whole.directory) / segment_name(0)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"v1", b"vX"))
    with pytest.raises(DamagedBatchError, match=r"orders-0.*checksum"):
        offsets(replace(whole, end=end))
    assert offsets(replace(whole, start=30)) == list(range(30, 60))
