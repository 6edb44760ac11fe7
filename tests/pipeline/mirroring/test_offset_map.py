"""The offset map: the entries of one transaction for a partition, and the translation of a committed offset."""

import json

from hypothesis import given
from hypothesis import strategies as st

from odradek.pipeline.mirroring.offset_map import MAX_RUNS, Entry, PartitionMap, Run

STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30)


@given(st.lists(STEPS, min_size=1, max_size=4))
def test_an_offset_leads_to_the_first_record_that_is_not_below_it(transactions) -> None:
    known, copied = PartitionMap(), dict[int, int]()
    source = target = 0
    for steps in transactions:
        entry = Entry(source, source, begins=not known.entries)
        for source_gap, target_gap in steps:
            source, target = source + source_gap, target + target_gap
            entry.add(source, target)
            copied[source] = target
            source, target = source + 1, target + 1
        entry.source_next = source
        known.entries.append(entry)
        target += 1  # the marker of the transaction
    assert known.next_offset == source
    for offset in range(source):
        wanted = min(each for each in copied if each >= offset)
        translated = known.translate(offset)
        assert translated is not None
        assert translated <= copied[wanted]
        assert [each for each in copied.values() if translated <= each < copied[wanted]] == []
    translated = known.translate(source + 10)
    assert translated is not None
    assert translated > max(copied.values())


def test_offsets_that_the_map_has_dropped_are_not_guessed() -> None:
    forgotten = PartitionMap([Entry(100, 110, [Run(100, 90, 10)])])
    assert forgotten.translate(99) is None
    assert forgotten.translate(100) == 90
    begun = PartitionMap([Entry(100, 110, [Run(100, 90, 10)], begins=True)])
    assert begun.translate(3) == 90
    assert PartitionMap().translate(3) is None


def test_an_entry_of_very_many_gaps_leaves_some_out() -> None:
    entry = Entry(0, 0)
    for number in range(3 * MAX_RUNS):
        entry.add(2 * number, number)
    assert len(json.loads(entry.value())["runs"]) == MAX_RUNS


@given(st.integers(0, 100))
def test_what_is_left_out_leads_to_earlier_records(offset: int) -> None:
    kept = PartitionMap([Entry(0, 100, [Run(0, 0, 1), Run(50, 25, 1)], begins=True)])
    translated = kept.translate(offset)
    assert translated is not None
    assert translated <= -(-offset // 2)
