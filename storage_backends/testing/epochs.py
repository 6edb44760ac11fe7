"""The tests of the history of leader epochs. The fixtures are those of `conformance`. Operations that replace a log's
segments, or move the log, must not lose the history (KAFKA-20961): a follower would be truncated at the wrong offset,
or not at all.
"""

from typing import Final

import pytest

from odradek.partitions.model import EpochStart, LogWrite
from odradek.storage_backends.interface import LogPolicy, PartitionStore, Store
from odradek.storage_backends.testing.access import base_offsets, replace_run
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.storage_backends.testing.medium import StoreMedium

POLICY: Final = LogPolicy(segment_bytes=400)
BATCHES: Final = 21
HISTORY: Final = (EpochStart(0, 0), EpochStart(2, 5), EpochStart(3, 13), EpochStart(5, 20))


class KeepingEpochs:
    """The history contains everything written, except what was truncated or deleted."""

    @pytest.fixture
    def dated(self, store: Store) -> PartitionStore:
        """Twenty batches in sealed segments of two, and an active one, of four epochs."""
        log = store.open(KEY, POLICY)
        for offset in range(BATCHES):
            started = [each for each in HISTORY if each.start_offset == offset]
            batch = make_batch(offset, max_timestamp_ms=1000 + offset, payload=b"p" * 100)
            log.commit([LogWrite([batch], started)], sync=True)
        assert log.load().epochs == HISTORY
        assert [each.base_offset for each in log.segments()] == list(range(0, BATCHES, 2))
        return log

    @pytest.mark.parametrize("kept", [[], [7], [5, 13], list(range(20))])
    def test_compaction_leaves_the_history(
        self, medium: StoreMedium, store: Store, dated: PartitionStore, kept: list[int]
    ) -> None:
        """Also of epochs without remaining batches, and after a later truncation."""
        replace_run(dated, 0, 20, kept)
        assert dated.load().epochs == HISTORY
        store.close()
        store = medium.open()
        log = store.open(KEY, POLICY)
        assert (base_offsets(log), log.load().epochs) == ([*kept, 20], HISTORY)
        assert log.truncate(14).epochs == HISTORY[:3]
        store.close()
        store = medium.open()
        assert store.open(KEY, POLICY).load().epochs == HISTORY[:3]
        store.close()

    @pytest.mark.parametrize(("end_offset", "left"), [(21, 4), (20, 3), (14, 3), (13, 2), (6, 2), (5, 1), (1, 1)])
    def test_a_cut_leaves_the_history_of_what_stays(
        self, medium: StoreMedium, store: Store, dated: PartitionStore, end_offset: int, left: int
    ) -> None:
        """A later epoch is added after it."""
        assert dated.truncate(end_offset).epochs == HISTORY[:left]
        store.close()
        store = medium.open()
        log = store.open(KEY, POLICY)
        assert log.load().epochs == HISTORY[:left]
        log.commit([LogWrite([make_batch(end_offset)], [EpochStart(9, end_offset)])], sync=True)
        store.close()
        store = medium.open()
        assert store.open(KEY, POLICY).load().epochs == (*HISTORY[:left], EpochStart(9, end_offset))
        store.close()

    def test_a_log_that_begins_anew_has_the_history_from_there(
        self, medium: StoreMedium, store: Store, dated: PartitionStore
    ) -> None:
        """The previous epochs would belong to other offsets."""
        dated.commit([LogWrite(log_start_offset=50)], sync=True)
        assert dated.load().epochs == ()
        began = LogWrite([make_batch(50), make_batch(51)], [EpochStart(5, 50), EpochStart(8, 51)], replicated=True)
        dated.commit([began], sync=True)
        store.close()
        store = medium.open()
        assert store.open(KEY, POLICY).load().epochs == (EpochStart(5, 50), EpochStart(8, 51))
        store.close()

    def test_a_log_that_is_taken_back_has_the_history_with_which_it_was_set_aside(
        self, medium: StoreMedium, store: Store, dated: PartitionStore
    ) -> None:
        """Also if there was another log of the partition in the meantime."""
        replace_run(dated, 4, 12, [9])
        dated.close()
        name = store.set_aside(KEY)
        other = store.open(KEY, POLICY)
        other.commit([LogWrite([make_batch(0)], [EpochStart(7, 0)])], sync=True)
        other.close()
        store.delete(KEY)
        store.close()
        store = medium.open()
        store.take_back(name)
        assert store.open(KEY, POLICY).load().epochs == HISTORY
        store.close()
