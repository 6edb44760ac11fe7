"""Compaction as pure logic: what to clean and which records remain, case by case and against a simple model."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_fakes import NOW_MS, data_batch, end_marker, of_producer

from odradek.partitions.compaction.cleaner import BatchFilter, KeyIndex, LastEntry
from odradek.partitions.compaction.offset_map import SLOT_BYTES, OffsetMap
from odradek.partitions.compaction.plan import first_dirty_offset, group_segments, plan_cleaning
from odradek.partitions.config import CleanupPolicy, LogConfig
from odradek.partitions.model import AbortedTransaction, SegmentInfo
from odradek.wire.records.batch import Codec, assign_offsets, check_crc, iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import read_records

RETENTION_MS = 1000
COMPACTED = frozenset({CleanupPolicy.COMPACT})


def log_of(*batches):
    """The batches in sequence, with offsets from 0."""
    content, offset = bytearray(), 0
    for batch in batches:
        start = len(content)
        content += bytes(batch)
        header = next(iter_headers(memoryview(content)[start:]))
        assign_offsets(memoryview(content)[start:], offset, 3)
        offset += header.last_offset_delta + 1
    return bytes(content), offset


def pairs(*keys, value=b"v", **fields):
    return data_batch(len(keys), keys=list(keys), value=value, **fields)


def tombstone(key, **fields):
    return build_batch([SimpleRecord(key, None, NOW_MS)], **fields)


def clean(content, *, end=None, now_ms=NOW_MS, aborted=(), start=0, map_bytes=1 << 20, last=None):
    """One cleaning; returns (content, aborted transactions that are kept, first dirty offset)."""
    view = memoryview(content)
    headers = list(iter_headers(view))
    end = headers[-1].next_offset if end is None else end
    offsets = OffsetMap(map_bytes, 0.9, 10**6)
    index = KeyIndex(offsets, start, aborted)
    dirty = b"".join(bytes(view[h.position : h.end_position]) for h in headers if start <= h.last_offset < end)
    index.add(memoryview(dirty))
    if not index.is_full:
        index.passed(end)
    batches = BatchFilter(offsets, aborted, end_offset=end, delete_retention_ms=RETENTION_MS, now_ms=now_ms)
    batches.last_entries = last or {}
    kept, next_offset = batches.keep(view)
    assert next_offset == headers[-1].next_offset
    for batch in kept:
        [header] = iter_headers(batch.data)
        check_crc(batch.data, header)
        assert (batch.base_offset, batch.last_offset) == (header.base_offset, header.last_offset)
        assert (batch.max_timestamp_ms, header.partition_leader_epoch) == (header.max_timestamp, 3)
    return b"".join(bytes(batch.data) for batch in kept), list(batches.take_reported()), offsets.latest_offset + 1


def offsets_in(content):
    return [record.offset for header in iter_headers(content) for record in read_records(content, header)]


class TestRecords:
    def test_the_newest_of_each_key_stays_where_it_was(self):
        content, _ = log_of(pairs(b"a", b"b"), pairs(b"a"), pairs(b"c", b"b", b"b"))
        cleaned, reported, dirty = clean(content)
        assert offsets_in(cleaned) == [2, 3, 5]
        assert (reported, dirty) == ([], 6)
        assert clean(cleaned)[0] == cleaned

    @pytest.mark.parametrize("codec", list(Codec))
    def test_what_is_left_is_what_was_sent(self, codec):
        records = [
            SimpleRecord(b"k%d" % (n % 3), b"v%d" % n, NOW_MS + n, (("h\u00e9", b"x"), ("n", None))) for n in range(9)
        ]
        content, _ = log_of(build_batch(records, codec=codec))
        cleaned, _, _ = clean(content)
        [header] = iter_headers(cleaned)
        found = list(read_records(cleaned, header))
        assert [(each.key, each.value, each.timestamp_ms, each.headers) for each in found] == [
            tuple(one) for one in records[6:]
        ]
        assert (header.codec, header.base_offset, header.last_offset, header.max_timestamp) == (codec, 0, 8, NOW_MS + 8)

    def test_untouched_batches_stay_byte_for_byte(self):
        content, _ = log_of(pairs(b"a", b"b", codec=Codec.GZIP), pairs(b"c"))
        assert clean(content)[0] == content

    def test_what_has_no_key_goes(self):
        content, _ = log_of(pairs(b"a", None, b"b"))
        assert offsets_in(clean(content)[0]) == [0, 2]

    def test_broker_time_stays(self):
        content, _ = log_of(pairs(b"a", b"a", log_append_time_ms=NOW_MS + 5))
        [header] = iter_headers(clean(content)[0])
        assert (header.max_timestamp, header.timestamp_type, header.record_count) == (NOW_MS + 5, 1, 1)

    def test_what_cannot_be_decoded_is_an_error(self):
        content, _ = log_of(pairs(b"a", b"b"))
        with pytest.raises(InvalidRecordBatch):
            clean(content[:62] + b"\xff" * (len(content) - 62))

    def test_the_batch_that_ends_the_round_stays_without_records(self):
        content, _ = log_of(pairs(b"a"), tombstone(b"a"))
        marked, _, _ = clean(content)
        cleaned, _, _ = clean(marked, now_ms=NOW_MS + RETENTION_MS)
        [header] = iter_headers(cleaned)
        assert (header.base_offset, header.last_offset, header.record_count, header.max_timestamp) == (1, 1, 0, NOW_MS)
        assert offsets_in(clean(cleaned)[0]) == []

    def test_above_the_end_of_the_map_all_stays(self):
        content, end = log_of(*[pairs(b"k%d" % (n // 2)) for n in range(200)])
        cleaned, _, dirty = clean(content, map_bytes=SLOT_BYTES * 50)
        assert dirty == 89  # a full map does not update the offset of a key that it contains, as in Kafka
        assert offsets_in(cleaned) == [*range(1, 88, 2), *range(88, end)]
        assert offsets_in(clean(cleaned, start=dirty)[0]) == list(range(1, end, 2))


@pytest.mark.parametrize("keys", [[b"%d" % number for number in range(20_000)], [b"k"] * 19_999 + [b"l"]])
def test_a_batch_of_many_records_is_cleaned_in_little_memory(keys):
    content, end_offset = log_of(data_batch(len(keys), keys=keys, value=b""))
    offsets = OffsetMap(1 << 20, 0.9, 10**6)
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
    batches = BatchFilter(offsets, (), end_offset=end_offset, delete_retention_ms=0, now_ms=NOW_MS)
    tracemalloc.start()
    kept, _ = batches.keep(memoryview(content))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(offsets_in(kept[0].data)) == len(set(keys))
    assert peak < 3 * len(content)


class TestTombstones:
    def test_stay_for_delete_retention_ms_after_the_first_cleaning(self):
        content, _ = log_of(pairs(b"a", b"b"), tombstone(b"a"), pairs(b"c"))
        first, _, _ = clean(content)
        assert offsets_in(first) == [1, 2, 3]
        horizons = [header.delete_horizon_ms for header in iter_headers(first)]
        assert horizons == [None, NOW_MS + RETENTION_MS, None]
        [record] = read_records(first, list(iter_headers(first))[1])
        assert (record.timestamp_ms, record.key, record.value) == (NOW_MS, b"a", None)
        assert clean(first, now_ms=NOW_MS + RETENTION_MS - 1)[0] == first
        assert offsets_in(clean(first, now_ms=NOW_MS + RETENTION_MS)[0]) == [1, 3]

    def test_an_older_one_goes_at_once(self):
        content, _ = log_of(tombstone(b"a"), pairs(b"a"))
        assert offsets_in(clean(content)[0]) == [1]


class TestProducers:
    def test_the_last_batch_of_an_active_producer_keeps_its_sequence(self):
        content, _ = log_of(of_producer(7, 0, 2), of_producer(7, 2, 3), of_producer(8, 0), pairs(b"k"))
        cleaned, _, _ = clean(content, last={7: LastEntry(4, 0)})
        headers = list(iter_headers(cleaned))
        assert [(each.base_offset, each.record_count) for each in headers] == [(2, 0), (6, 1)]
        kept = headers[0]
        assert (kept.producer_id, kept.producer_epoch, kept.base_sequence, kept.last_sequence) == (7, 0, 2, 4)

    def test_a_producer_known_by_its_marker_alone_keeps_it(self):
        content, _ = log_of(of_producer(7, 0, transactional=True), end_marker(7, committed=True, epoch=1), pairs(b"k"))
        late = NOW_MS + 10 * RETENTION_MS
        once, _, _ = clean(content)
        twice, _, _ = clean(once)
        assert [each.record_count for each in iter_headers(clean(twice, now_ms=late)[0])] == [1]
        kept = clean(twice, now_ms=late, last={7: LastEntry(-1, 1)})[0]
        assert [(each.base_offset, each.is_control, each.record_count) for each in iter_headers(kept)] == [
            (1, True, 0),
            (2, False, 1),
        ]


class TestTransactions:
    ABORTED = AbortedTransaction(7, 0, 2, 3)

    def aborted_log(self):
        return log_of(of_producer(7, 0, 2, transactional=True), end_marker(7, committed=False), pairs(b"z"))[0]

    def test_aborted_records_go_and_are_not_the_newest_of_their_key(self):
        content, _ = log_of(
            pairs(b"k"), of_producer(7, 0, transactional=True), end_marker(7, committed=False), pairs(b"z")
        )
        cleaned, reported, _ = clean(content, aborted=[AbortedTransaction(7, 1, 2, 3)])
        assert [each.base_offset for each in iter_headers(cleaned)] == [0, 2, 3]
        assert reported == [AbortedTransaction(7, 1, 2, 3)]

    def test_the_marker_is_removed_last_and_not_reported_before(self):
        first, reported, _ = clean(self.aborted_log(), aborted=[self.ABORTED])
        assert ([each.base_offset for each in iter_headers(first)], reported) == ([2, 3], [self.ABORTED])
        second, reported, _ = clean(first, aborted=[self.ABORTED])
        assert ([each.delete_horizon_ms for each in iter_headers(second)], reported) == (
            [NOW_MS + RETENTION_MS, None],
            [],
        )
        assert clean(second, now_ms=NOW_MS + RETENTION_MS - 1)[0] == second
        assert [each.base_offset for each in iter_headers(clean(second, now_ms=NOW_MS + RETENTION_MS)[0])] == [3]

    def test_a_commit_marker_stays_while_its_records_do(self):
        content, _ = log_of(of_producer(7, 0, transactional=True), end_marker(7, committed=True), pairs(b"z"))
        late = NOW_MS + 10 * RETENTION_MS
        cleaned, _, _ = clean(clean(content)[0], now_ms=late)
        assert cleaned == content

    def test_a_later_transaction_of_the_same_producer_is_its_own(self):
        content, _ = log_of(
            of_producer(7, 0, transactional=True), end_marker(7, committed=False),
            data_batch(1, keys=[b"x"], producer_id=7, producer_epoch=0, base_sequence=1, transactional=True),
            end_marker(7, committed=True), pairs(b"z"),
        )  # fmt: skip
        cleaned, _, _ = clean(content, aborted=[AbortedTransaction(7, 0, 1, 2)])
        assert [each.base_offset for each in iter_headers(cleaned)] == [1, 2, 3, 4]


@st.composite
def histories(draw):
    """Batches of (key, has value) records."""
    record = st.tuples(st.integers(0, 6), st.booleans())
    return draw(st.lists(st.lists(record, min_size=1, max_size=4), min_size=1, max_size=20))


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_any_number_of_cleanings_leaves_the_newest_of_each_key(history, data):
    batches = [
        build_batch([SimpleRecord(b"%d" % key, b"v" if full else None, NOW_MS) for key, full in batch])
        for batch in history
    ]
    content, end = log_of(*batches)
    flat = [record for batch in history for record in batch]
    borders = [*(header.base_offset for header in iter_headers(content)), end]
    start = 0
    for border in [*sorted(data.draw(st.lists(st.sampled_from(borders), max_size=3))), end]:
        if border > start:
            content, _, start = clean(content, start=start, end=border)
    newest = {key: offset for offset, (key, _) in enumerate(flat)}
    assert offsets_in(content) == sorted(newest.values())
    more, _ = log_of(*[pairs(b"other")] * (end + 1))
    content += bytes(memoryview(more)[-len(more) // (end + 1) :])
    content, _, _ = clean(content, start=end, now_ms=NOW_MS + RETENTION_MS)
    assert offsets_in(content) == [*sorted(offset for offset in newest.values() if flat[offset][1]), end]


class TestOffsetMap:
    def test_holds_to_its_bytes(self):
        offsets = OffsetMap(SLOT_BYTES * 100, 0.9, 10**9)
        added = sum(offsets.put(b"key %d" % n, n) for n in range(1000))
        assert (added, len(offsets), offsets.size_bytes) == (90, 90, SLOT_BYTES * 100)
        assert [offsets.get(b"key %d" % n) for n in range(100)] == [*range(90), *[-1] * 10]

    def test_is_small_for_a_small_log(self):
        assert OffsetMap(1 << 30, 0.9, 100).size_bytes < 200 * SLOT_BYTES

    @pytest.mark.parametrize(
        ("load_factor", "count"),
        [*((other, 90) for other in (0.0, -0.5, 1.01, 5.0, float("inf"), float("nan"))), (1.0, 99), (5e-324, 1)],
    )
    def test_has_a_free_slot_whatever_the_load_factor(self, load_factor, count):
        offsets = OffsetMap(SLOT_BYTES * 100, load_factor, 10**9)
        assert sum(offsets.put(b"key %d" % n, n) for n in range(count + 1)) == count
        assert offsets.get(b"another") == -1

    @given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=60))
    def test_is_a_mapping(self, items):
        offsets, expected = OffsetMap(1 << 16, 0.9, 200), dict(items)
        assert all(offsets.put(key, offset) for key, offset in items)
        assert {key: offsets.get(key) for key in expected} == expected
        assert offsets.get(b"another") == -1


def segments_of(*sealed, active=(50, 10)):
    """Segments given as (size, newest timestamp), each ten offsets long, followed by the active one."""
    infos = [SegmentInfo(n * 10, n * 10 + 10, size, newest, sealed=True) for n, (size, newest) in enumerate(sealed)]
    base = len(sealed) * 10
    return [*infos, SegmentInfo(base, base + 10, active[0], active[1], sealed=False)]


def plan_of(segments, *, dirty=0, stable=10**9, oldest=None, **config):
    chosen = LogConfig(cleanup_policy=COMPACTED, **config)
    return plan_cleaning(
        segments, first_dirty=dirty, last_stable_offset=stable, config=chosen, now_ms=NOW_MS, oldest_dirty_ms=oldest
    )


class TestPlan:
    FOUR = segments_of((100, 1), (100, 2), (100, 3), (100, 4))

    @pytest.mark.parametrize(
        ("dirty", "stable", "expected"),
        [(0, 10**9, (40, 0, 400)), (20, 10**9, (40, 200, 200)), (25, 10**9, (40, 300, 200)), (40, 10**9, (40, 400, 0)),
         (0, 25, (20, 0, 200)), (0, 20, (20, 0, 200)), (30, 5, (30, 300, 0))],
    )  # fmt: skip
    def test_whole_sealed_segments_below_the_last_stable_offset(self, dirty, stable, expected):
        plan = plan_of(self.FOUR, dirty=dirty, stable=stable)
        assert (plan.end_offset, plan.clean_bytes, plan.cleanable_bytes) == expected

    def test_due_when_dirty_enough(self):
        assert plan_of(self.FOUR, dirty=10, min_cleanable_dirty_ratio=0.74).is_due
        assert not plan_of(self.FOUR, dirty=10, min_cleanable_dirty_ratio=0.75).is_due
        assert not plan_of(self.FOUR, dirty=40, min_cleanable_dirty_ratio=0.0).is_due
        assert not plan_of(segments_of(), min_cleanable_dirty_ratio=0.0).is_due

    def test_not_before_min_compaction_lag_ms(self):
        segments = segments_of((100, NOW_MS - 500), (100, NOW_MS - 100), (100, NOW_MS - 500))
        assert plan_of(segments, min_compaction_lag_ms=200).end_offset == 10
        assert plan_of(segments, min_compaction_lag_ms=100).end_offset == 30
        assert plan_of(segments, min_compaction_lag_ms=0).end_offset == 30

    def test_at_the_latest_after_max_compaction_lag_ms(self):
        due = {"dirty": 30, "min_cleanable_dirty_ratio": 0.9, "max_compaction_lag_ms": 1000}
        assert not plan_of(self.FOUR, **due).is_due
        assert not plan_of(self.FOUR, oldest=NOW_MS - 1000, **due).is_due
        assert plan_of(self.FOUR, oldest=NOW_MS - 1001, **due).is_due
        assert not plan_of(self.FOUR, oldest=0, **due).is_due

    def test_a_compacted_log_rolls_by_the_lag(self):
        assert LogConfig(cleanup_policy=COMPACTED, max_compaction_lag_ms=5, segment_ms=10).roll_ms == 5
        assert LogConfig(max_compaction_lag_ms=5, segment_ms=10).roll_ms == 10

    @pytest.mark.parametrize(("clean", "expected"), [(0, 10), (9, 10), (10, 10), (15, 15), (20, 20), (21, 10)])
    def test_where_the_dirty_part_begins(self, clean, expected):
        assert first_dirty_offset(clean, 10, 20) == expected

    @pytest.mark.parametrize(
        ("end", "size", "expected"),
        [
            (40, 1000, [4]),
            (40, 200, [2, 2]),
            (40, 299, [2, 2]),
            (40, 99, [1, 1, 1, 1]),
            (21, 1000, [3]),
            (20, 100, [1, 1]),
        ],
    )
    def test_segments_become_one_up_to_segment_bytes(self, end, size, expected):
        assert [len(group) for group in group_segments(self.FOUR, end, size)] == expected


def test_a_tombstone_of_a_producer_that_had_aborted_in_the_clean_part_removes_the_value():
    """The aborted transaction has no marker in the dirty part, and must not include what the producer wrote later."""
    aborts = data_batch(1, keys=[b"y"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    deletes = tombstone(b"x", producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
    content, end = log_of(
        pairs(b"x"),
        aborts,
        end_marker(7, committed=False),
        pairs(b"z"),
        deletes,
        end_marker(7, committed=True),
        pairs(b"z"),
        pairs(b"z"),
    )
    aborted = [AbortedTransaction(7, 1, 2, 3)]
    [split] = [header.position for header in iter_headers(memoryview(content)) if header.base_offset == 4]
    once, aborted, dirty = clean(content[:split], aborted=aborted)
    assert (aborted, dirty) == ([AbortedTransaction(7, 1, 2, 3)], 4)
    twice, aborted, dirty = clean(once + content[split:], aborted=aborted, start=4)
    assert dirty == end
    assert 0 not in offsets_in(twice), "the value of x"


def test_chunks_after_that_in_which_the_map_became_full_are_not_counted_as_clean():
    """Otherwise a tombstone that was not indexed could be removed before the value that it deletes."""
    content, _ = log_of(
        pairs(*[b"k%d" % number for number in range(14)]),
        tombstone(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        end_marker(7, committed=True),
    )
    view = memoryview(content)
    offsets = OffsetMap(SLOT_BYTES * 15, 0.9, 10**6)
    index = KeyIndex(offsets, 0, [])
    for header in iter_headers(view):
        index.add(view[header.position : header.end_position])
    assert index.is_full
    assert offsets.latest_offset < 14
