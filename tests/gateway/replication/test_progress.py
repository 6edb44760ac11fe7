"""Waiting for offsets of a log to be reached."""

import pytest

from odradek.gateway.replication.progress import OffsetWaits


def test_offsets_are_reached_in_their_order() -> None:
    waits, reached = OffsetWaits(), list[int]()
    for offset in (3, 5, 5, 9):
        waits.until(offset).on_settled(lambda _, offset=offset: reached.append(offset))
    waits.reach(2)
    assert reached == []
    waits.reach(5)
    assert reached == [3, 5, 5]
    waits.reach(20)
    assert reached == [3, 5, 5, 9]


def test_an_offset_below_another_is_settled_with_the_next_that_is_awaited() -> None:
    waits = OffsetWaits()
    waits.until(3)
    waits.until(9)
    earlier = waits.until(4)
    waits.reach(8)
    assert not earlier.settled
    waits.reach(9)
    assert earlier.result() is None


def test_a_callback_may_wait_anew() -> None:
    waits, again = OffsetWaits(), []
    waits.until(1).on_settled(lambda _: again.append(waits.until(2)))
    waits.reach(1)
    assert [each.settled for each in again] == [False]
    waits.reach(2)
    assert again[0].settled


def test_a_failure_ends_all_waits_and_no_later_one() -> None:
    waits = OffsetWaits()
    failed = [waits.until(1), waits.until(7)]
    waits.fail(OSError("disk"))
    for each in failed:
        with pytest.raises(OSError, match="disk"):
            each.result()
    assert not waits.until(1).settled


def test_a_failure_ends_all_waits_although_a_callback_raises() -> None:
    waits, settled = OffsetWaits(), list[int]()

    def fail(_: object) -> None:
        raise AssertionError("a defect")

    waits.until(1).on_settled(fail)
    waits.until(2).on_settled(lambda _: settled.append(2))
    with pytest.raises(AssertionError, match="a defect"):
        waits.fail(ValueError())
    assert settled == [2]
