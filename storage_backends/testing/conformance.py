"""The suite for every backend: examples, then tests with Hypothesis and with threads."""

from collections.abc import Generator, Sequence
from dataclasses import replace

import pytest

from odradek.partitions.model import AbortedTransaction, EpochStart, LogSnapshot, LogWrite, StoredBatch
from odradek.storage_backends.interface import (
    LogPolicy,
    OffsetNotInStoreError,
    PartitionStore,
    Rest,
    Store,
    StoreError,
    StoreLockedError,
)
from odradek.storage_backends.testing.access import base_offsets, fill, joined, read_all, replace_run
from odradek.storage_backends.testing.at_once import CommittingAtOnce
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.concurrency import check_partitions_in_parallel, check_readers_beside_writer
from odradek.storage_backends.testing.epochs import KeepingEpochs
from odradek.storage_backends.testing.keys import DOTTED, KEY, LONGEST, REINCARNATION, SIBLING
from odradek.storage_backends.testing.medium import StoreFactory, StoreMedium
from odradek.storage_backends.testing.replicating import Replicating
from odradek.storage_backends.testing.setting_aside import SettingAside
from odradek.storage_backends.testing.state_machine import check_against_model
from odradek.storage_backends.testing.truncating import Truncating

POLICY = LogPolicy()
_BIG = 2**31 - 1


class _Fixtures:
    """A medium, its store, and an open log in it."""

    @pytest.fixture
    def medium(self, store_factory: StoreFactory) -> Generator[StoreMedium]:
        """An empty medium."""
        medium = store_factory()
        yield medium
        medium.destroy()

    @pytest.fixture
    def store(self, medium: StoreMedium) -> Generator[Store]:
        """The medium's store, open."""
        store = medium.open()
        yield store
        store.close()

    @pytest.fixture
    def log(self, store: Store) -> PartitionStore:
        """An empty log in one segment."""
        return store.open(KEY, POLICY)


class _Writing(CommittingAtOnce, _Fixtures):
    def test_a_new_log_is_empty(self, log: PartitionStore) -> None:
        assert log.load() == LogSnapshot()
        assert read_all(log, 0) == b""
        assert log.key == KEY
        assert [(each.base_offset, each.end_offset, each.sealed) for each in log.segments()] == [(0, 0, False)]

    def test_what_was_committed_is_loaded(self, log: PartitionStore) -> None:
        log.commit(
            [
                LogWrite([make_batch(0, 3, max_timestamp_ms=5)], [EpochStart(0, 0)], {1: b"one", 2: b"two"}),
                LogWrite([make_batch(3, 2, max_timestamp_ms=4)], [EpochStart(4, 3)], {2: None, 3: b""}),
                LogWrite(aborted=[AbortedTransaction(9, 0, 4, 2), AbortedTransaction(8, 1, 3, 1)]),
            ],
            sync=True,
        )
        assert log.load() == LogSnapshot(
            log_end_offset=5,
            max_timestamp_ms=5,
            epochs=(EpochStart(0, 0), EpochStart(4, 3)),
            producers={1: b"one", 3: b""},
            aborted=(AbortedTransaction(8, 1, 3, 1), AbortedTransaction(9, 0, 4, 2)),
        )

    def test_the_writer_s_buffer_may_be_reused(self, log: PartitionStore) -> None:
        batch = make_batch(0)
        buffer = bytearray(batch.data)
        log.commit([LogWrite([StoredBatch(0, 0, -1, memoryview(buffer))])], sync=False)
        buffer[:] = bytes(len(buffer))
        assert read_all(log, 0) == batch.data

    @pytest.mark.parametrize("base_offset", [3, 1, 0])
    def test_a_gap_or_overlap_is_refused_and_nothing_written(self, log: PartitionStore, base_offset: int) -> None:
        fill(log, 1)
        before = log.load()
        with pytest.raises(ValueError, match="does not continue"):
            log.commit([LogWrite([make_batch(1)], producers={1: b""}), LogWrite([make_batch(base_offset)])], sync=True)
        assert log.load() == before

    def test_an_epoch_may_be_replaced(self, log: PartitionStore) -> None:
        log.commit([LogWrite(epochs=[EpochStart(1, 0)])], sync=True)
        log.commit([LogWrite(epochs=[EpochStart(1, 5), EpochStart(2, 7)])], sync=True)
        assert log.load().epochs == (EpochStart(1, 5), EpochStart(2, 7))

    def test_many_batches_of_all_sizes_in_one_commit(self, log: PartitionStore) -> None:
        sizes = [0, 1, 2000, 4000, 4096, 70_000, 300_000, 5, 1_200_000, 0]
        batches = [make_batch(n, payload=b"%d" % n * size) for n, size in enumerate(sizes)]
        log.commit([LogWrite(batches[:4]), LogWrite(batches[4:])], sync=False)
        got = b""
        offset = 0
        while offset < len(batches):
            step = read_all(log, offset)
            offset += sum(1 for batch in batches[offset:] if bytes(batch.data) in step)
            got += step
        assert got == joined(batches)


class _Reading(_Fixtures):
    def test_from_any_offset(self, log: PartitionStore) -> None:
        batches = [make_batch(0, 4), make_batch(4, 2), make_batch(6, 1)]
        log.commit([LogWrite(batches)], sync=False)
        for offset, first in enumerate([0, 0, 0, 0, 1, 1, 2]):
            assert joined(batches).endswith(read_all(log, offset))
            assert read_all(log, offset).startswith(bytes(batches[first].data))
        assert read_all(log, 7) == b""

    def test_up_to_but_not_over_the_end_offset(self, log: PartitionStore) -> None:
        batches = [make_batch(0, 4), make_batch(4, 2), make_batch(6, 1)]
        log.commit([LogWrite(batches)], sync=False)
        expected = [0, 0, 0, 0, 1, 1, 2, 3, 3]
        assert [read_all(log, 0, end) for end in range(9)] == [joined(batches[:count]) for count in expected]
        assert read_all(log, 5, 5) == read_all(log, 5, 2) == b""

    def test_at_most_max_bytes_but_always_one_batch(self, log: PartitionStore) -> None:
        batches = [make_batch(n, payload=b"x" * 100) for n in range(3)]
        log.commit([LogWrite(batches)], sync=False)
        size = len(batches[0].data)
        assert [len(read_all(log, 0, max_bytes=limit)) // size for limit in (0, size - 1, size, size * 2 - 1)] == [
            1
        ] * 4
        assert read_all(log, 1, max_bytes=size * 2) == joined(batches[1:])

    def test_what_a_read_has_left(self, log: PartitionStore) -> None:
        batches = [make_batch(n, payload=b"x" * 100) for n in range(4)]
        log.commit([LogWrite(batches[:2])], sync=False)
        log.commit([LogWrite(batches[2:])], sync=False)
        size = len(batches[0].data)

        def rest(start: int, end: int, max_bytes: int) -> Rest:
            lease = log.read(start, end, max_bytes)
            try:
                return lease.rest
            finally:
                lease.release()

        for max_bytes in (0, size, size * 2, size * 2 + 1):
            assert rest(0, 4, max_bytes) is Rest.CUT
        assert rest(0, 4, size * 4) is rest(2, 4, size * 2) is rest(3, 4, 0) is Rest.NOTHING
        assert rest(0, 1, 0) is rest(0, 1, size) is rest(0, 2, size * 2) is Rest.NOTHING
        assert rest(4, 4, 0) is rest(2, 1, 0) is Rest.NOTHING

    def test_a_read_that_begins_in_an_older_segment(self, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_bytes=1000))
        fill(log, 40)
        newest = log.segments()[-1].base_offset
        assert newest > 1
        cases = {
            (0, 40): Rest.NEWER_SEGMENT,
            (newest - 1, newest): Rest.NEWER_SEGMENT,
            (newest - 1, newest + 1): Rest.NEWER_SEGMENT,
            (newest, 40): Rest.NOTHING,
            (40, 40): Rest.NOTHING,
        }
        for (start, end), expected in cases.items():
            lease = log.read(start, end, _BIG)
            assert (start, end, lease.rest) == (start, end, expected)
            lease.release()

    def test_outside_the_log_is_an_error(self, log: PartitionStore) -> None:
        fill(log, 4)
        log.commit([LogWrite(log_start_offset=2)], sync=True)
        for offset in (1, 5, -1):
            with pytest.raises(OffsetNotInStoreError, match=str(offset)):
                log.read(offset, _BIG, _BIG)

    def test_a_lease_stays_as_it_was(self, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_bytes=2000))
        first = fill(log, 3)
        leases = [log.read(0, _BIG, _BIG) for _ in range(3)]
        fill(log, 60, start=3)
        log.commit([LogWrite(log_start_offset=50)], sync=True)
        log.truncate(51)
        assert [b"".join(lease.chunks) for lease in leases] == [joined(first)] * 3
        assert [lease.size_bytes for lease in leases] == [len(joined(first))] * 3
        for lease in leases:
            lease.release()
            lease.release()

    def test_more_leases_than_anyone_should_hold(self, log: PartitionStore) -> None:
        (batch,) = fill(log, 1)
        leases = [log.read(0, _BIG, _BIG) for _ in range(700)]
        fill(log, 3, start=1)
        assert all(b"".join(lease.chunks) == batch.data for lease in leases)
        for lease in leases:
            lease.release()

    def test_what_was_just_written_is_hot(self, log: PartitionStore) -> None:
        assert log.is_hot(0)
        fill(log, 3)
        assert log.is_hot(0)
        assert log.is_hot(3)


class _Searching(_Fixtures):
    def test_by_timestamp(self, log: PartitionStore) -> None:
        times = [50, 70, 60, 70, 90, 80]
        log.commit([LogWrite([make_batch(n, max_timestamp_ms=t) for n, t in enumerate(times)])], sync=False)
        found = [log.find_by_timestamp(t) for t in (0, 50, 51, 70, 71, 90, 91)]
        assert found == [0, 0, 1, 1, 4, 4, None]
        assert log.find_max_timestamp() == 4

    def test_the_first_of_equal_largest_timestamps(self, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_bytes=150))
        for offset, time in enumerate([5, 9, 9, 7, 9]):
            log.commit([LogWrite([make_batch(offset, max_timestamp_ms=time, payload=b"x" * 60)])], sync=False)
        assert len(log.segments()) > 2
        assert log.find_max_timestamp() == 1

    def test_what_lies_below_the_log_start_is_not_found(self, log: PartitionStore) -> None:
        times = [50, 99, 60, 70]
        log.commit([LogWrite([make_batch(n, max_timestamp_ms=t) for n, t in enumerate(times)])], sync=False)
        log.commit([LogWrite(log_start_offset=2)], sync=False)
        assert [log.find_by_timestamp(t) for t in (0, 65, 80)] == [2, 3, None]
        assert log.find_max_timestamp() == 3

    def test_without_timestamps_or_batches(self, log: PartitionStore) -> None:
        assert log.find_by_timestamp(0) is None
        assert log.find_max_timestamp() is None
        log.commit([LogWrite([make_batch(0), make_batch(1)])], sync=False)
        assert log.find_by_timestamp(0) is None
        assert log.find_max_timestamp() == 0


class _Rolling(_Fixtures):
    def test_by_size_before_the_write_that_would_not_fit(self, store: Store) -> None:
        size = len(make_batch(0, payload=b"p" * 100).data)
        log = store.open(KEY, LogPolicy(segment_bytes=size * 3))
        batches = fill(log, 7)
        assert [(each.base_offset, each.size_bytes) for each in log.segments()] == [
            (0, size * 3),
            (3, size * 3),
            (6, size),
        ]
        assert read_all(log, 4).startswith(bytes(batches[4].data))

    def test_a_write_is_never_split(self, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_bytes=300))
        fill(log, 1, size_bytes=50)
        large = [make_batch(n, payload=b"l" * 200) for n in range(1, 5)]
        log.commit([LogWrite(large, producers={4: b"state"}), LogWrite([make_batch(5)])], sync=True)
        assert [each.base_offset for each in log.segments()] == [0, 1, 5]
        assert log.load().producers == {4: b"state"}

    def test_by_record_time(self, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_ms=100))
        for offset, time in enumerate([1000, 1100, 1050, 1101, 1100, 1202, -1]):
            log.commit([LogWrite([make_batch(offset, max_timestamp_ms=time)])], sync=False)
        assert [each.base_offset for each in log.segments()] == [0, 3, 5]
        assert [each.max_timestamp_ms for each in log.segments()] == [1100, 1101, 1202]

    def test_all_state_goes_along(self, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_bytes=300))
        log.commit([LogWrite([make_batch(0)], [EpochStart(0, 0)], {1: b"a", 2: b"b"})], sync=True)
        log.commit([LogWrite(aborted=[AbortedTransaction(1, 0, 0, 0)])], sync=True)
        before = log.load()
        fill(log, 20, start=1)
        assert len(log.segments()) > 5
        after = log.load()
        assert (after.epochs, after.producers, after.aborted) == (before.epochs, before.producers, before.aborted)

    def test_a_new_policy_holds_from_the_next_commit(self, log: PartitionStore) -> None:
        fill(log, 3)
        log.configure(LogPolicy(segment_bytes=1))
        fill(log, 2, start=3)
        assert [each.base_offset for each in log.segments()] == [0, 3, 4]

    def test_a_log_goes_on_when_it_need_not_be_durable_any_more_and_back(self, log: PartitionStore) -> None:
        batches = fill(log, 2)
        for start, durable in ((2, False), (4, True), (6, False)):
            log.configure(LogPolicy(durable=durable))
            batches += fill(log, 1, start=start)
            log.commit([LogWrite([make_batch(start + 1)])], sync=durable)
            batches.append(make_batch(start + 1))
        got = b""
        while len(got) < len(joined(batches)):
            got += read_all(log, sum(1 for _ in _whole(batches, got)))
        assert got == joined(batches)


def _whole(batches: Sequence[StoredBatch], content: bytes) -> Generator[StoredBatch]:
    for batch in batches:
        if not content:
            return
        content = content[len(batch.data) :]
        yield batch


class _Deleting(_Fixtures):
    def test_whole_segments_below_the_log_start_go(self, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_bytes=500))
        batches = fill(log, 20)
        bases = [each.base_offset for each in log.segments()]
        log.commit([LogWrite(log_start_offset=bases[2] + 1)], sync=True)
        assert [each.base_offset for each in log.segments()] == bases[2:]
        assert log.load().log_start_offset == bases[2] + 1
        assert read_all(log, bases[2] + 1).startswith(bytes(batches[bases[2] + 1].data))

    def test_the_log_start_never_goes_back(self, log: PartitionStore) -> None:
        fill(log, 5)
        log.commit([LogWrite(log_start_offset=3), LogWrite(log_start_offset=1)], sync=True)
        log.commit([LogWrite(log_start_offset=2)], sync=True)
        assert log.load().log_start_offset == 3

    def test_everything_may_be_deleted(self, log: PartitionStore) -> None:
        fill(log, 5, size_bytes=50_000)
        log.commit([LogWrite(log_start_offset=5, producers={1: b"kept"})], sync=True)
        assert [(each.base_offset, each.size_bytes) for each in log.segments()] == [(5, 0)]
        assert log.load().producers == {1: b"kept"}
        (batch,) = fill(log, 1, start=5)
        assert read_all(log, 5) == batch.data

    def test_a_log_start_above_the_end_empties_the_log(self, log: PartitionStore) -> None:
        fill(log, 5)
        log.commit([LogWrite(epochs=[EpochStart(0, 0)], producers={1: b"gone"})], sync=True)
        log.commit([LogWrite(log_start_offset=90, epochs=[EpochStart(7, 80)]), LogWrite([make_batch(90)])], sync=True)
        assert log.load() == LogSnapshot(90, 91, -1, (EpochStart(7, 80),))

    def test_a_log_start_above_the_end_of_its_own_batches_is_refused(self, log: PartitionStore) -> None:
        with pytest.raises(ValueError, match="log start 5 lies above the end 1"):
            log.commit([LogWrite([make_batch(0)], log_start_offset=5)], sync=True)
        assert log.load() == LogSnapshot()

    def test_history_below_the_log_start_is_not_loaded(self, log: PartitionStore) -> None:
        fill(log, 9)
        aborted = [AbortedTransaction(1, 0, 3, 0), AbortedTransaction(1, 2, 4, 0)]
        log.commit([LogWrite(epochs=[EpochStart(n, n * 2) for n in range(4)], aborted=aborted)], sync=True)
        log.commit([LogWrite(log_start_offset=4)], sync=True)
        assert log.load().epochs == (EpochStart(2, 4), EpochStart(3, 6))
        assert log.load().aborted == (aborted[1],)


class _Replacing(KeepingEpochs, _Fixtures):
    @pytest.fixture
    def cleanable(self, store: Store) -> PartitionStore:
        """Twenty batches in sealed segments of two, and an active one."""
        log = store.open(KEY, LogPolicy(segment_bytes=400))
        fill(log, 21)
        assert [each.base_offset for each in log.segments()] == list(range(0, 21, 2))
        return log

    def test_cleaned_batches_stand_where_the_segments_were(
        self, medium: StoreMedium, store: Store, cleanable: PartitionStore
    ) -> None:
        log = cleanable
        replace_run(log, 4, 12, [5, 9])
        assert base_offsets(log) == [0, 1, 2, 3, 5, 9, *range(12, 21)]
        assert [(each.base_offset, each.end_offset) for each in log.segments()][1:4] == [(2, 4), (4, 12), (12, 14)]
        state = (log.load(), list(log.segments()))
        store.close()
        reopened = medium.open()
        log = reopened.open(KEY, POLICY)
        assert (log.load(), list(log.segments())) == state
        assert base_offsets(log) == [0, 1, 2, 3, 5, 9, *range(12, 21)]
        fill(log, 1, start=21)
        reopened.close()

    def test_searches_find_what_is_left(self, cleanable: PartitionStore) -> None:
        replace_run(cleanable, 0, 10, [3])
        replace_run(cleanable, 10, 20, [])
        assert [cleanable.find_by_timestamp(1000 + n) for n in (0, 3, 4, 19, 20, 21)] == [3, 3, 20, 20, 20, None]
        assert cleanable.find_max_timestamp() == 20
        assert read_all(cleanable, 4) == read_all(cleanable, 20)
        assert read_all(cleanable, 4, 20) == b""
        replace_run(cleanable, 0, 20, [])
        assert base_offsets(cleanable) == [20]
        assert [each.size_bytes for each in cleanable.segments()[:-1]] == [0]

    def test_a_cleaned_log_may_be_cleaned_cut_and_deleted(self, cleanable: PartitionStore) -> None:
        replace_run(cleanable, 0, 8, [1, 6])
        replace_run(cleanable, 0, 12, [6, 11])
        assert cleanable.truncate(8).log_end_offset == 8
        fill(cleanable, 3, start=8)
        assert base_offsets(cleanable) == [6, 8, 9, 10]
        cleanable.commit([LogWrite(log_start_offset=9)], sync=True)
        assert base_offsets(cleanable, 9) == [9, 10]

    def test_only_the_aborted_transactions_given_are_left_of_the_run(self, cleanable: PartitionStore) -> None:
        one, two, three, four = (AbortedTransaction(1, n, n + 1, n) for n in (2, 4, 6, 12))
        cleanable.commit([LogWrite(aborted=[one, two, three, four], clean_offset=3)], sync=True)
        before = cleanable.load()
        draft = cleanable.draft(4, 12)
        draft.seal([three])
        assert cleanable.replace(draft)
        assert cleanable.load() == replace(before, aborted=(one, three, four))

    def test_a_draft_of_segments_that_went_meanwhile_changes_nothing(self, cleanable: PartitionStore) -> None:
        drafts = [cleanable.draft(4, 12)]
        drafts[0].seal([])
        cleanable.commit([LogWrite(log_start_offset=7)], sync=True)
        before = (cleanable.load(), list(cleanable.segments()))
        assert not cleanable.replace(drafts[0])
        drafts[0].discard()
        assert (cleanable.load(), list(cleanable.segments())) == before
        draft = cleanable.draft(6, 20)
        draft.seal([])
        cleanable.truncate(15)
        assert not cleanable.replace(draft)
        draft.discard()
        assert base_offsets(cleanable, 7) == list(range(7, 15))

    @pytest.mark.parametrize(("base", "end"), [(3, 8), (4, 9), (20, 21), (4, 4), (4, 30)])
    def test_a_draft_covers_whole_sealed_segments(self, cleanable: PartitionStore, base: int, end: int) -> None:
        with pytest.raises(ValueError, match="no run of sealed segments"):
            cleanable.draft(base, end)

    def test_a_discarded_draft_leaves_nothing(self, cleanable: PartitionStore) -> None:
        size_bytes = cleanable.size_bytes()
        draft = cleanable.draft(0, 20)
        draft.add([make_batch(0, payload=b"x" * 5000)])
        draft.discard()
        draft.discard()
        assert base_offsets(cleanable) == list(range(21))
        assert cleanable.size_bytes() == size_bytes
        replace_run(cleanable, 0, 20, [7])
        assert base_offsets(cleanable) == [7, 20]

    def test_leases_stay_as_they_were(self, cleanable: PartitionStore) -> None:
        leases = [cleanable.read(offset, _BIG, _BIG) for offset in (4, 6)]
        before = [b"".join(lease.chunks) for lease in leases]
        replace_run(cleanable, 0, 20, [])
        assert [b"".join(lease.chunks) for lease in leases] == before
        for lease in leases:
            lease.release()

    def test_how_far_compaction_came_is_kept(
        self, medium: StoreMedium, store: Store, cleanable: PartitionStore
    ) -> None:
        log = cleanable
        log.commit([LogWrite(clean_offset=11)], sync=True)
        fill(log, 4, start=21)
        store.close()
        reopened = medium.open()
        log = reopened.open(KEY, POLICY)
        assert log.load().clean_offset == 11
        assert log.truncate(5).clean_offset == 5
        log.commit([LogWrite(log_start_offset=90)], sync=True)
        assert log.load().clean_offset == 0
        reopened.close()


class _Keeping(SettingAside, _Fixtures):
    def test_everything_is_there_after_reopening(self, medium: StoreMedium, store: Store) -> None:
        log = store.open(KEY, LogPolicy(segment_bytes=700))
        batches = fill(log, 30)
        log.commit([LogWrite(epochs=[EpochStart(2, 0)], producers={5: b"five"}, log_start_offset=7)], sync=True)
        before, segments = log.load(), list(log.segments())
        store.set_properties({"cluster.id": "abc", "node.id": "1"})
        store.close()
        reopened = medium.open()
        assert list(reopened.partitions()) == [KEY]
        log = reopened.open(KEY, LogPolicy(segment_bytes=700))
        assert (log.load(), list(log.segments())) == (before, segments)
        assert reopened.properties() == {"cluster.id": "abc", "node.id": "1"}
        for offset in range(7, 30):
            assert read_all(log, offset).startswith(bytes(batches[offset].data))
        fill(log, 2, start=30)
        reopened.close()

    def test_one_handle_per_partition(self, store: Store) -> None:
        log = store.open(KEY, POLICY)
        with pytest.raises(StoreError, match="open"):
            store.open(KEY, POLICY)
        log.close()
        log.close()
        store.open(KEY, POLICY)

    def test_a_closed_log_says_so(self, store: Store) -> None:
        log = store.open(KEY, POLICY)
        log.close()
        for call in (log.load, log.segments, lambda: log.read(0, 1, 1), lambda: log.commit([LogWrite()], sync=True)):
            with pytest.raises(StoreError, match="closed"):
                call()

    def test_partitions_of_all_names(self, medium: StoreMedium, store: Store) -> None:
        keys = sorted([KEY, SIBLING, REINCARNATION, DOTTED, LONGEST])
        for number, key in enumerate(keys, 1):
            fill(store.open(key, POLICY), number)
        assert list(store.partitions()) == keys
        store.close()
        reopened = medium.open()
        assert list(reopened.partitions()) == keys
        assert [reopened.open(key, POLICY).load().log_end_offset for key in keys] == [1, 2, 3, 4, 5]
        reopened.close()

    def test_a_deleted_partition_is_gone_and_may_come_again(self, medium: StoreMedium, store: Store) -> None:
        log = store.open(KEY, POLICY)
        fill(log, 3)
        fill(store.open(SIBLING, POLICY), 1)
        with pytest.raises(StoreError, match="open"):
            store.delete(KEY)
        log.close()
        for _ in range(2):
            store.delete(KEY)
            assert list(store.partitions()) == [SIBLING]
            again = store.open(KEY, POLICY)
            assert again.load() == LogSnapshot()
            fill(again, 1)
            again.close()
        store.delete(KEY)
        store.close()
        reopened = medium.open()
        assert list(reopened.partitions()) == [SIBLING]
        reopened.close()

    def test_a_second_opener_is_refused(self, medium: StoreMedium, store: Store) -> None:
        with pytest.raises(StoreLockedError):
            medium.open()
        store.close()
        medium.open().close()

    def test_properties_are_added_and_replaced(self, store: Store) -> None:
        assert store.properties() == {}
        store.set_properties({"a": "1", "b": "é\n"})
        store.set_properties({"a": "2"})
        assert store.properties() == {"a": "2", "b": "é\n"}

    def test_it_says_where_it_is_and_what_room_it_has(self, store: Store) -> None:
        space = store.space()
        assert space.location
        if space.total_bytes is not None and space.usable_bytes is not None:
            assert 0 <= space.usable_bytes <= space.total_bytes

    def test_a_closed_store_says_so(self, store: Store) -> None:
        log = store.open(KEY, POLICY)
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.open(SIBLING, POLICY)
        with pytest.raises(StoreError, match="closed"):
            log.load()

    def test_the_space_it_takes(self, log: PartitionStore) -> None:
        fill(log, 4, size_bytes=100_000)
        assert log.size_bytes() >= 400_000


class StoreConformance(
    _Writing,
    CommittingAtOnce,
    Replicating,
    _Reading,
    _Searching,
    _Rolling,
    _Deleting,
    Truncating,
    _Replacing,
    _Keeping,
):
    """The whole suite. Subclass it in a module with a fixture `store_factory`."""

    def test_against_the_model(self, store_factory: StoreFactory) -> None:
        """Any sequence of operations."""
        check_against_model(store_factory)

    def test_readers_beside_a_writer(self, store_factory: StoreFactory) -> None:
        """Threads on one partition."""
        check_readers_beside_writer(store_factory)

    def test_partitions_in_parallel(self, store_factory: StoreFactory) -> None:
        """Threads on two partitions."""
        check_partitions_in_parallel(store_factory)
