"""Distribution of a Fetch's byte limit among partitions (KIP-74)."""

import pytest

from odradek.partitions.fetching.budget import FetchBudget


def served(offers: list[tuple[int, list[int]]], max_bytes: int) -> list[int]:
    """Bytes returned per partition; an offer is (partition max, batch sizes), read as the store reads."""
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
