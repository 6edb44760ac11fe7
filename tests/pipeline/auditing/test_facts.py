"""Sums over a partition's batches, and offsets that nothing explains."""

import pytest

from odradek.pipeline.auditing.facts import PartitionFacts, Timeline
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch


def header(base_offset, count=1, *, producer_id=-1, epoch=-1, sequence=-1, transactional=False, time_ms=1_000):
    records = [SimpleRecord(None, b"v", timestamp_ms=time_ms) for _ in range(count)]
    batch = build_batch(
        records,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    (found,) = iter_headers(batch)
    return found


def facts(end_offset, *, start_offset=0, compacted=False):
    return PartitionFacts(0, start_offset, end_offset, compacted)


def test_a_whole_log_has_no_problem():
    found = facts(5)
    found.see(header(0, 2))
    found.see(header(2, 3))
    found.end()
    assert (found.records, found.committed, found.batches) == (5, 5, 2)
    assert found.problems == {}
    assert +found.gaps == {}


@pytest.mark.parametrize(("compacted", "reason"), [(False, "unexplained"), (True, "compacted")])
def test_offsets_between_batches_and_at_the_end(compacted, reason):
    found = facts(10, compacted=compacted)
    found.see(header(0, 2))
    found.see(header(5, 1))
    found.end()
    assert found.gaps[reason] == 3 + 4
    assert found.problems["offsets missing"] == (0 if compacted else 7)
    assert found.examples.get("offsets missing", []) == (
        [] if compacted else ["3 of offsets 2 to 4", "4 of offsets 6 to 9"]
    )


def test_what_retention_has_deleted():
    found = facts(7, start_offset=5)
    found.see(header(4, 3))  # the batch that contains the log start offset is read whole
    found.end()
    assert (found.records, +found.gaps) == (2, {"retention": 5})


def test_transactions_that_commit_abort_and_are_open():
    found = facts(6)
    for base_offset, producer_id in ((0, 1), (1, 2), (2, 3)):
        found.see(header(base_offset, producer_id=producer_id, epoch=0, sequence=0, transactional=True))
    found.see_marker(header(3, producer_id=1), aborts=False, of_transaction=True)
    found.see_marker(header(4, producer_id=2), aborts=True, of_transaction=True)
    found.see(header(5))
    found.end()
    assert (found.committed, found.aborted, found.open_records) == (2, 1, 1)
    assert +found.gaps == {"transaction marker": 2}
    assert found.problems == {}


@pytest.mark.parametrize(("epoch", "sequence", "duplicated"), [(0, 2, 0), (0, 1, 1), (0, 0, 2), (1, 0, 0), (0, 9, 0)])
def test_sequences_used_again(epoch, sequence, duplicated):
    found = facts(4)
    found.see(header(0, 2, producer_id=7, epoch=0, sequence=0))
    found.see(header(2, 2, producer_id=7, epoch=epoch, sequence=sequence))
    assert found.problems["duplicated sequence"] == duplicated


@pytest.mark.parametrize(
    ("epoch", "sequence", "problem"),
    [(0, 2, None), (0, 9, "sequence gap"), (1, 0, None), (1, 3, "sequence gap")],
)
@pytest.mark.parametrize("compacted", [False, True])
def test_sequences_left_out(epoch, sequence, problem, compacted):
    found = facts(4, compacted=compacted)
    found.see(header(0, 2, producer_id=7, epoch=0, sequence=0))
    found.see(header(2, 2, producer_id=7, epoch=epoch, sequence=sequence))
    assert dict(found.problems) == ({} if problem is None or compacted else {problem: 1})


def test_an_epoch_that_goes_back():
    found = facts(6)
    for offset, epoch in ((0, 3), (2, 2), (4, 3)):
        found.see(header(offset, 2, producer_id=7, epoch=epoch, sequence=0 if offset < 4 else 2))
    assert found.problems == {"producer epoch went back": 1}
    assert found.examples["producer epoch went back"] == ["offset 2: producer 7 epoch 2 sequence 0, after epoch 3"]


def test_damaged_offsets_are_neither_missing_nor_a_gap_in_sequences():
    found = facts(6)
    found.see(header(0, 2, producer_id=7, epoch=0, sequence=0))
    found.see_damage(2, 4, "why")
    found.see(header(4, 2, producer_id=7, epoch=0, sequence=4))
    found.end()
    assert found.problems == {"damaged batch": 1}
    assert found.examples == {"damaged batch": ["offsets 2 to 3: why"]}
    assert +found.gaps == {"damaged": 2}


def test_sequences_wrap():
    found = facts(4)
    found.see(header(0, 2, producer_id=7, epoch=0, sequence=2**31 - 2))
    found.see(header(2, 2, producer_id=7, epoch=0, sequence=0))
    assert found.problems == {}


def test_a_timeline_keeps_few_spans():
    timeline = Timeline()
    for second in range(10_000):
        timeline.add(second * 1_000, 1)
    assert sum(timeline.counts.values()) == 10_000
    assert 30 <= len(timeline.counts) <= 60
