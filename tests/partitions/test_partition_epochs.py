"""The history of leader epochs (KIP-101, KIP-279, KIP-320)."""

import pytest

from odradek.partitions.epochs import EpochHistory
from odradek.partitions.model import EpochStart
from odradek.partitions.results import EpochEnd


def history(*entries: tuple[int, int]) -> EpochHistory:
    return EpochHistory(EpochStart(epoch, start) for epoch, start in entries)


def pairs(epochs: EpochHistory) -> list[tuple[int, int]]:
    return [(entry.leader_epoch, entry.start_offset) for entry in epochs.entries]


@pytest.mark.parametrize(
    ("before", "entry", "after"),
    [
        ([], (0, 0), [(0, 0)]),
        ([], (5, 100), [(5, 100)]),
        ([(0, 0)], (0, 7), [(0, 0)]),
        ([(0, 0)], (1, 7), [(0, 0), (1, 7)]),
        ([(0, 0)], (1, 0), [(1, 0)]),
        ([(0, 0), (1, 7)], (2, 7), [(0, 0), (2, 7)]),
        ([(0, 0), (1, 7)], (1, 5), [(0, 0), (1, 5)]),
        ([(0, 0), (1, 7), (2, 9)], (3, 3), [(0, 0), (3, 3)]),
        ([(0, 0), (4, 7)], (2, 9), [(0, 0), (2, 9)]),
    ],
)
def test_assign(before: list, entry: tuple[int, int], after: list) -> None:
    epochs = history(*before)
    added = epochs.assign(*entry)
    assert added == (None if before == after else EpochStart(*entry))
    assert pairs(epochs) == after


def test_entries_may_be_loaded_in_any_order() -> None:
    assert pairs(history((3, 9), (0, 0), (2, 9), (1, 4))) == [(0, 0), (1, 4), (3, 9)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 20)), (2, (1, 20)), (3, (1, 20)), (4, (4, 30)), (5, (5, 99)), (6, (-1, -1))],
)
def test_end_of(asked: int, answer: tuple[int, int]) -> None:
    epochs = history((1, 10), (4, 20), (5, 30))
    assert epochs.end_of(asked, 99) == EpochEnd(*answer)


def test_an_empty_history_knows_no_end() -> None:
    assert history().end_of(0, 5) == EpochEnd(-1, -1)
    assert (history().latest, history().epoch_of(0)) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (9, -1), (10, 1), (19, 1), (20, 4), (1000, 4)])
def test_epoch_of(offset: int, epoch: int) -> None:
    assert history((1, 10), (4, 20)).epoch_of(offset) == epoch


@pytest.mark.parametrize(
    ("start", "left"),
    [(0, [(1, 10), (4, 20)]), (10, [(1, 10), (4, 20)]), (15, [(1, 15), (4, 20)]), (20, [(4, 20)]), (99, [(4, 99)])],
)
def test_truncate_start(start: int, left: list) -> None:
    epochs = history((1, 10), (4, 20))
    epochs.truncate_start(start)
    assert pairs(epochs) == left
