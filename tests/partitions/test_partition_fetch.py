"""Sharing a Fetch's bytes among partitions (KIP-74), and deciding whether to wait."""

import pytest

from partitions.fetch import FetchBudget, Readable, decide_fetch, has_enough


def served(offers: list[tuple[int, list[int]]], max_bytes: int) -> list[int]:
    """Bytes given per partition; an offer is (partition max, batch sizes), read as the store reads."""
    budget, given = FetchBudget(max_bytes), []
    for partition_max, batches in offers:
        allowed = budget.allowance(partition_max)
        size = 0
        for batch in batches:
            if size + batch > allowed and size > 0:
                break
            size += batch
        given.append(size if not budget.is_spent and budget.take(size, allowed) else 0)
    return given


@pytest.mark.parametrize(
    ("offers", "max_bytes", "given"),
    [
        ([(100, [40, 40, 40])], 1000, [80]),
        ([(100, [40, 40]), (100, [40, 40])], 1000, [80, 80]),
        ([(100, [40, 40]), (100, [40, 40])], 130, [80, 40]),
        ([(100, [500]), (100, [40])], 1000, [500, 40]),
        ([(1000, [500]), (100, [40])], 100, [500, 0]),
        ([(100, [40]), (100, [500])], 1000, [40, 0]),
        ([(100, []), (100, [500])], 1000, [0, 500]),
        ([(0, [50]), (100, [40])], 1000, [50, 40]),
        ([(-5, [50]), (100, [40])], 1000, [50, 40]),
        ([(100, [50]), (100, [40])], 0, [50, 0]),
        ([(100, [50]), (100, [40])], -1, [50, 0]),
        ([(2**31 - 1, [50]), (2**31 - 1, [40])], 2**31 - 1, [50, 40]),
    ],
)
def test_bytes_are_shared_in_order(offers: list, max_bytes: int, given: list[int]) -> None:
    assert served(offers, max_bytes) == given


def test_the_budget_counts() -> None:
    budget = FetchBudget(100)
    assert budget.allowance(70) == 70
    assert budget.take(60, 70)
    assert (budget.taken_bytes, budget.allowance(70), budget.is_spent) == (60, 40, False)
    assert not budget.take(41, 40)
    assert budget.take(40, 40)
    assert (budget.taken_bytes, budget.allowance(70), budget.is_spent) == (100, 0, True)


DATA = Readable(100, 60)
NOTHING = Readable(100, 0)
FAULT = Readable(100, 0, answer_now=True)


@pytest.mark.parametrize(
    ("partitions", "min_bytes", "max_wait_ms", "answer_now"),
    [
        ([], 1, 500, True),
        ([NOTHING], 1, 500, False),
        ([NOTHING], 1, 0, True),
        ([NOTHING], 0, 500, True),
        ([NOTHING, FAULT], 1, 500, True),
        ([NOTHING, DATA], 1, 500, True),
        ([NOTHING, DATA], 61, 500, False),
        ([DATA, DATA], 120, 500, True),
        ([DATA, DATA], 121, 500, False),
        ([Readable(10, 1000)], 11, 500, False),
        ([Readable(10, 1000)], 10, 500, True),
    ],
)
def test_when_to_answer(partitions: list[Readable], min_bytes: int, max_wait_ms: int, answer_now: bool) -> None:
    decision = decide_fetch(partitions, max_bytes=1000, min_bytes=min_bytes, max_wait_ms=max_wait_ms)
    assert decision.answer_now is answer_now


def test_each_partition_counts_up_to_its_own_maximum() -> None:
    assert has_enough([DATA, Readable(10, 1000)], 70)
    assert not has_enough([DATA, Readable(10, 1000)], 71)
    assert has_enough([], 0)


@pytest.mark.parametrize(
    ("partitions", "max_bytes", "allowances"),
    [
        ([DATA, DATA], 1000, [100, 100]),
        ([DATA, DATA], 80, [80, 20]),
        ([DATA, DATA, DATA], 60, [60, 0, 0]),
        ([NOTHING, DATA], 60, [60, 60]),
        ([Readable(0, 500), DATA], 1000, [0, 100]),
    ],
)
def test_allowances(partitions: list[Readable], max_bytes: int, allowances: list[int]) -> None:
    decision = decide_fetch(partitions, max_bytes=max_bytes, min_bytes=1, max_wait_ms=0)
    assert list(decision.allowances) == allowances
