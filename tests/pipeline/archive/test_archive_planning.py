"""The offsets of a batch, and the reasons for offsets without a record; without Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipeline.archiving.gaps import explain, missing_ranges
from odradek.pipeline.archiving.planning import BEFORE, RETENTION, Bounds, Planned, Start, plan, total
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition
from odradek.pipeline.wire_client import BrokerError, Fetched
from odradek.wire.errors import ErrorCode
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ONE = SimpleRecord(b"k", b"v", 5)


def test_a_batch_goes_on_where_the_table_ends():
    bounds = Bounds({A: 0, B: 7}, {A: 10, B: 9})
    assert plan({A: 4}, {B: 0}, bounds, 100) == [Planned(A, 4, 4, 10), Planned(B, 0, 7, 9, {BEFORE: 7})]
    assert plan({A: 10, B: 9}, {}, bounds, 100) == []


def test_what_went_since_is_lost():
    assert plan({A: 3}, {}, Bounds({A: 5}, {A: 9}), 100) == [Planned(A, 3, 5, 9, {RETENTION: 2})]
    assert plan({A: 3}, {}, Bounds({A: 9}, {A: 9}), 100) == [Planned(A, 3, 9, 9, {RETENTION: 6})]


def test_a_log_that_ends_too_early_is_refused():
    with pytest.raises(PipelineError, match="t-0 ends at offset 9, before offset 12"):
        plan({A: 12}, {}, Bounds({A: 0}, {A: 9}), 100)


@given(ends=st.lists(st.integers(0, 1_000), min_size=1, max_size=5), most=st.integers(1, 1_000))
def test_batches_are_bounded_and_reach_the_end(ends, most):
    partitions = [TopicPartition("t", index) for index in range(len(ends))]
    bounds = Bounds(dict.fromkeys(partitions, 0), dict(zip(partitions, ends, strict=True)))
    done: dict[TopicPartition, int] = {}
    for _ in range(2 + sum(ends)):
        planned = plan(done, {each: 0 for each in partitions if each not in done}, bounds, most)
        if not planned:
            break
        assert total(planned) <= most + len(partitions)
        done |= {one.place: one.end for one in planned}
    assert done == bounds.stable


@given(st.sets(st.integers(0, 30)))
def test_gaps_are_what_is_not_there(present):
    gaps = missing_ranges([(offset, offset + 1) for offset in sorted(present)], 0, 31)
    assert {offset for first, after in gaps for offset in range(first, after)} == set(range(31)) - present


@pytest.mark.parametrize(("text", "start"), [
    ("earliest", Start(EARLIEST)), ("latest", Start(LATEST)), ("1970-01-01T00:00:01", Start(1_000)),
    ('{"t": {"0": 5, "1": -1}}', Start(places={A: 5, B: LATEST})),
])  # fmt: skip
def test_starts(text, start):
    assert Start.parse(text) == start


class Log:
    """A partition with these batches. A fetch at the end has `error`."""

    def __init__(self, *batches: bytes, error: int = 0) -> None:
        self._bytes, self._error = b"".join(batches), error

    def fetch(self, positions, **_):
        from odradek.wire.records.batch import iter_headers

        (partition, position), = positions.items()  # fmt: skip
        left = [one for one in iter_headers(memoryview(self._bytes)) if one.next_offset > position]
        if not left:
            return {partition: Fetched(self._error, memoryview(b""))}
        return {partition: Fetched(0, memoryview(self._bytes)[left[0].position :])}


def marker(offset: int, *, committed: bool) -> bytes:
    return end_transaction_marker(
        committed=committed, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=5, base_offset=offset
    )


def test_each_gap_has_its_reason():
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log = Log(
        build_batch([ONE, ONE], base_offset=0),
        build_batch([ONE, ONE], base_offset=4, **producer),
        marker(6, committed=False),
        build_batch([ONE], base_offset=7, **producer),
        marker(8, committed=True),
    )
    gaps = [(2, 7), (8, 9)]
    assert explain(log, A, gaps) == {"compacted": 2, "aborted": 2, "transaction marker": 2}
    assert explain(log, A, [(7, 9)]) == {"unexplained": 1, "transaction marker": 1}
    assert explain(log, A, [(1, 2)]) == {"unexplained": 1}
    assert explain(log, A, [(4, 5)]) == {"aborted": 1}
    assert explain(log, A, [(8, 12)]) == {"transaction marker": 1, "unexplained": 3}


def test_records_are_not_taken_for_aborted_because_a_fetch_failed():
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    batch = build_batch([ONE, ONE], base_offset=0, **producer)
    assert explain(Log(batch), A, [(0, 2)]) == {"aborted": 2}
    gone = Log(batch, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert explain(gone, A, [(0, 2)]) == {"unexplained": 2}
    assert explain(gone, A, [(0, 3)]) == {"unexplained": 3}
    with pytest.raises(BrokerError, match="t-0 at offset 2: TOPIC_AUTHORIZATION_FAILED"):
        explain(Log(batch, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), A, [(0, 2)])
