"""The tests of truncation. The fixtures are those of `conformance`."""

import pytest

from odradek.partitions.model import AbortedTransaction, EpochStart, LogSnapshot, LogWrite
from odradek.storage_backends.interface import LogPolicy, PartitionStore, Store
from odradek.storage_backends.testing.access import fill, joined, read_all, replace_run
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.storage_backends.testing.medium import StoreMedium


class Truncating:
    """The state of a log after a truncation."""

    def test_batches_and_all_that_came_with_them_go(self, log: PartitionStore) -> None:
        """Epochs, producers and aborted transactions are dropped with their batches."""
        log.commit([LogWrite([make_batch(0, 2, max_timestamp_ms=5)], [EpochStart(0, 0)], {1: b"a"})], sync=True)
        log.commit([LogWrite([make_batch(2, 2, max_timestamp_ms=9)], [EpochStart(1, 2)], {2: b"b"})], sync=True)
        log.commit(
            [LogWrite([make_batch(4)], producers={1: b"c"}, aborted=[AbortedTransaction(2, 2, 4, 2)])], sync=True
        )
        assert log.truncate(4).producers == {2: b"b"}
        assert log.load() == LogSnapshot(0, 4, 9, (EpochStart(0, 0), EpochStart(1, 2)), {2: b"b"})
        assert log.truncate(2) == LogSnapshot(0, 2, 5, (EpochStart(0, 0),))
        assert log.find_max_timestamp() == 0

    @pytest.mark.parametrize("segment_bytes", [150, 10_000])
    def test_a_row_that_goes_is_replaced_in_the_same_transaction(
        self, medium: StoreMedium, store: Store, segment_bytes: int
    ) -> None:
        """`rebuilt` replaces dropped rows, and adds those of producers without one."""
        log = store.open(KEY, LogPolicy(segment_bytes=segment_bytes))
        for offset in range(4):
            log.commit([LogWrite([make_batch(offset)], producers={offset % 2: b"%d" % offset})], sync=True)
        log.commit([LogWrite([make_batch(4)], producers={2: b"4"})], sync=True)
        left = log.truncate(3, {0: b"not used", 1: b"rebuilt", 5: b"added"})
        assert left.producers == {0: b"2", 1: b"rebuilt", 5: b"added"}
        assert log.truncate(3).producers == left.producers, "it stands at the cut"
        store.close()
        reopened = medium.open()
        assert reopened.open(KEY, LogPolicy()).load() == left
        reopened.close()

    def test_rows_of_an_earlier_time_are_all_of_that_time(self, store: Store) -> None:
        """The state at the requested offset is the rows plus the batches from the rows' log end on."""
        log = store.open(KEY, LogPolicy(segment_bytes=150))
        rows: dict[int, bytes] = {}
        rows_at = {0: dict(rows)}
        for offset in range(12):
            rows[offset % 3] = b"%d" % offset
            log.commit([LogWrite([make_batch(offset)], producers={offset % 3: rows[offset % 3]})], sync=True)
            rows_at[offset + 1] = dict(rows)
        sealed = [info.end_offset for info in log.segments() if info.sealed]
        assert len(sealed) > 2
        for offset in range(13):
            known = log.producers_before(offset)
            assert known.end_offset <= offset
            assert known.rows == (rows_at[known.end_offset] if known.end_offset else {})
        log.commit([LogWrite(log_start_offset=sealed[1] + 1)], sync=True)
        known = log.producers_before(sealed[1] + 1)
        assert (known.end_offset, dict(known.rows)) == (sealed[1] + 1, {})
        replace_run(log, sealed[1], sealed[2], [sealed[1]])
        later = log.producers_before(12)
        assert later.end_offset in (sealed[1] + 1, *sealed[3:])

    def test_a_batch_that_spans_the_offset_goes_whole(self, log: PartitionStore) -> None:
        """A batch is dropped as a whole."""
        log.commit([LogWrite([make_batch(0, 2), make_batch(2, 5)], [EpochStart(3, 2)])], sync=True)
        snapshot = log.truncate(4)
        assert (snapshot.log_end_offset, snapshot.epochs) == (2, ())
        log.commit([LogWrite([make_batch(2, 1)])], sync=True)
        assert read_all(log, 2) == make_batch(2, 1).data

    def test_at_the_end_only_an_epoch_without_batches_goes(self, log: PartitionStore) -> None:
        """A truncation at the log end drops the epochs that begin there."""
        fill(log, 3)
        log.commit([LogWrite(epochs=[EpochStart(0, 0), EpochStart(1, 3)])], sync=True)
        assert log.truncate(4).epochs == (EpochStart(0, 0), EpochStart(1, 3))
        assert log.truncate(3) == LogSnapshot(0, 3, 1002, (EpochStart(0, 0),))

    def test_into_a_sealed_segment(self, medium: StoreMedium, store: Store) -> None:
        """The log continues in the formerly sealed segment."""
        log = store.open(KEY, LogPolicy(segment_bytes=500))
        batches = fill(log, 20)
        log.commit([LogWrite(log_start_offset=4)], sync=True)
        snapshot = log.truncate(8)
        assert snapshot == LogSnapshot(4, 8, 1007)
        assert read_all(log, 4) == joined(batches[4:6]) or read_all(log, 4).startswith(joined(batches[4:5]))
        later = fill(log, 10, start=8)
        store.close()
        reopened = medium.open()
        log = reopened.open(KEY, LogPolicy())
        assert log.load().log_end_offset == 18
        assert read_all(log, 17) == later[-1].data
        assert log.find_by_timestamp(1007) == 7
        reopened.close()

    @pytest.mark.parametrize("end_offset", [0, 3])
    def test_below_the_log_start(self, store: Store, end_offset: int) -> None:
        """The log is emptied, and continues at the cut."""
        log = store.open(KEY, LogPolicy(segment_bytes=500))
        fill(log, 20)
        log.commit([LogWrite(log_start_offset=15, epochs=[EpochStart(0, 1)])], sync=True)
        snapshot = log.truncate(end_offset)
        assert (snapshot.log_start_offset, snapshot.log_end_offset) == (end_offset, end_offset)
        fill(log, 3, start=end_offset)
        assert log.load().log_end_offset == end_offset + 3

    def test_below_the_log_start_a_dead_batch_does_not_count(self, log: PartitionStore) -> None:
        """A batch below the log start does not move the cut."""
        log.commit([LogWrite([make_batch(0, 4), make_batch(4, 4)]), LogWrite(log_start_offset=5)], sync=True)
        assert log.truncate(2) == LogSnapshot(2, 2)
        log.commit([LogWrite([make_batch(2)])], sync=True)
        assert read_all(log, 2) == make_batch(2).data
