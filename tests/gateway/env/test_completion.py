"""A result that is set later: waited for, passed to callbacks, converted, gathered."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from odradek.gateway.env.completion import Completion, Gathered, completed


class RefusedError(Exception):
    pass


async def test_all_that_wait_get_the_value(nursery: trio.Nursery) -> None:
    completion, got = Completion[int](), []

    async def wait() -> None:
        got.append(await completion.wait())

    nursery.start_soon(wait)
    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    completion.settle(7)
    await wait_all_tasks_blocked()
    assert got == [7, 7]
    assert await completion.wait() == 7


async def test_an_error_is_raised_where_the_value_is_wanted() -> None:
    completion = Completion[int]()
    completion.fail(RefusedError("no"))
    with pytest.raises(RefusedError, match="no"):
        await completion.wait()
    with pytest.raises(RefusedError, match="no"):
        completion.result()


def test_callbacks_run_in_order_and_at_once_when_it_is_settled() -> None:
    completion, order = Completion[int](), []
    for number in range(3):
        completion.on_settled(lambda done, number=number: order.append((number, done.result())))
    assert order == []
    completion.settle(7)
    completion.on_settled(lambda done: order.append((3, done.result())))
    assert order == [(0, 7), (1, 7), (2, 7), (3, 7)]


def test_it_is_settled_once() -> None:
    completion = completed(1)
    with pytest.raises(AssertionError, match="once"):
        completion.settle(2)
    with pytest.raises(AssertionError, match="once"):
        completion.fail(RefusedError())


async def test_a_cancelled_wait_does_not_end_it() -> None:
    completion = Completion[int]()
    with trio.CancelScope() as scope:
        scope.cancel()
        await completion.wait()
    completion.settle(7)
    assert completion.result() == 7


def test_what_is_made_of_it_comes_when_it_comes() -> None:
    completion = Completion[int]()
    text = completion.then(lambda done: str(done.result()))
    assert not text.settled
    completion.settle(7)
    assert text.result() == "7"


def test_an_error_reaches_what_is_made_of_it_and_what_that_raises_is_its_error() -> None:
    failed = Completion[int]()
    mapped, passed_on = failed.then(lambda done: str(done.error)), failed.then(lambda done: done.result())
    failed.fail(RefusedError("no"))
    assert mapped.result() == "no"
    with pytest.raises(RefusedError):
        passed_on.result()


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_what_many_make_comes_with_the_last_of_them(count: int) -> None:
    each = [Completion[None]() for _ in range(count)]
    together = Gathered(each, lambda: [bool(one.error) for one in each])
    for number, completion in enumerate(each):
        assert not together.settled
        if number % 2:
            completion.fail(RefusedError())
        else:
            completion.settle(None)
    assert together.result() == [bool(number % 2) for number in range(count)]


def test_the_error_of_one_of_many_stays_with_it() -> None:
    failed, settled = Completion[None](), completed(None)
    together = Gathered([failed, settled], lambda: None)
    assert not together.settled
    failed.fail(RefusedError())
    assert together.error is None
    assert isinstance(failed.error, RefusedError)


def test_many_are_settled_early_and_only_once() -> None:
    late, calls = Completion[None](), list[bool]()
    together = Gathered([late], lambda: calls.append(late.settled))
    together.finish()
    together.finish()
    late.settle(None)
    assert together.settled
    assert calls == [False]


def test_what_cannot_be_made_of_many_is_their_error() -> None:
    part = Completion[None]()

    def make() -> None:
        raise RefusedError

    together = Gathered([part], make)
    part.settle(None)
    with pytest.raises(RefusedError):
        together.result()
