"""The tests of replicated writes. The fixtures are those of `conformance`."""

from typing import Final

import pytest

from odradek.partitions.model import AbortedTransaction, EpochStart, LogSnapshot, LogWrite
from odradek.storage_backends.interface import LogPolicy, PartitionStore, Store
from odradek.storage_backends.testing.access import fill, joined, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.storage_backends.testing.medium import StoreMedium

BATCHES: Final = (make_batch(2, 3, max_timestamp_ms=5), make_batch(9, 1, max_timestamp_ms=9), make_batch(20, 4))
"""The third has no record at its last offset, as after compaction, which keeps a batch's offset range."""


class Replicating:
    """A follower's copy of a compacted log has gaps between batches, and batches that end after their last record."""

    @pytest.fixture(params=[10**9, 150], ids=["one segment", "a segment for each write"])
    def copy(self, store: Store, request: pytest.FixtureRequest) -> PartitionStore:
        """The log of a follower."""
        log = store.open(KEY, LogPolicy(segment_bytes=request.param))
        epochs = [EpochStart(1, 2), EpochStart(4, 9)]
        first = LogWrite(BATCHES[:2], epochs, {7: b"row"}, [AbortedTransaction(7, 2, 9, 2)], replicated=True)
        log.commit([first, LogWrite(BATCHES[2:], [EpochStart(4, 9)], replicated=True)], sync=True)
        return log

    def test_what_was_committed_is_loaded_also_after_a_restart(
        self, copy: PartitionStore, store: Store, medium: StoreMedium
    ) -> None:
        """The log end is after the last batch."""
        expected = LogSnapshot(
            log_end_offset=24,
            max_timestamp_ms=9,
            epochs=(EpochStart(1, 2), EpochStart(4, 9)),
            producers={7: b"row"},
            aborted=(AbortedTransaction(7, 2, 9, 2),),
        )
        assert copy.load() == expected
        store.close()
        reopened = medium.open()
        assert reopened.open(KEY, LogPolicy()).load() == expected
        reopened.close()

    def test_a_reader_in_a_gap_gets_the_next_batch(self, copy: PartitionStore) -> None:
        """As in a compacted log, also if it is in the next segment."""
        for offset, following in ((0, 0), (2, 0), (5, 1), (8, 1), (9, 1), (10, 2), (19, 2), (23, 2)):
            assert read_all(copy, offset).startswith(bytes(BATCHES[following].data))
        assert read_all(copy, 24) == read_all(copy, 10, 20) == b""

    def test_it_is_searched_by_time(self, copy: PartitionStore) -> None:
        """The time index has no offsets in a gap."""
        assert copy.find_by_timestamp(6) == copy.find_max_timestamp() == 9

    @pytest.mark.parametrize(("end_offset", "left"), [(22, 2), (15, 2), (10, 2), (9, 1), (7, 1), (2, 0), (1, 0)])
    def test_it_is_truncated_in_a_gap_or_at_a_batch(self, copy: PartitionStore, end_offset: int, left: int) -> None:
        """The log ends at the cut, and a leader's writes continue there."""
        cut = min([end_offset, *(batch.base_offset for batch in BATCHES[left : left + 1])])
        assert copy.truncate(end_offset).log_end_offset == cut
        assert joined(BATCHES[:left]) == b"".join(
            [read_all(copy, batch.base_offset, batch.last_offset + 1) for batch in BATCHES[:left]]
        )
        copy.commit([LogWrite([make_batch(cut)])], sync=True)  # a leader's write
        assert copy.load().log_end_offset == cut + 1

    def test_a_copy_goes_on_without_a_gap_as_well(self, copy: PartitionStore) -> None:
        """`replicated` is a property of a write, not of the log."""
        copy.commit([LogWrite([make_batch(24), make_batch(25)], replicated=True)], sync=True)
        with pytest.raises(ValueError, match="does not continue"):
            copy.commit([LogWrite([make_batch(27)])], sync=True)

    @pytest.mark.parametrize("base_offset", [1, 0])
    def test_a_replicated_overlap_is_refused_too(self, log: PartitionStore, base_offset: int) -> None:
        """It is a bug of the caller, and nothing is written."""
        fill(log, 1)
        before = log.load()
        with pytest.raises(ValueError, match="does not continue"):
            log.commit([LogWrite([make_batch(1), make_batch(base_offset)], replicated=True)], sync=True)
        assert log.load() == before
