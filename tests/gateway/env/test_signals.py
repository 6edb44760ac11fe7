"""A task that waits until it is woken, and calls at the next tick."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from odradek.gateway.env.signals import CALLS_AT_ONCE, Condition, Signal, Ticker, Watchable


async def test_a_wake_is_for_one_wait(nursery: trio.Nursery) -> None:
    signal, woken = Signal(), []

    async def wait_thrice() -> None:
        for number in range(3):
            await signal.wait()
            woken.append(number)

    nursery.start_soon(wait_thrice)
    await wait_all_tasks_blocked()
    signal.wake()
    await wait_all_tasks_blocked()
    assert woken == [0], "a wake that found its task leaves nothing for the next wait"
    signal.wake()
    signal.wake()  # the task is runnable and no longer waits
    signal.wake()
    await wait_all_tasks_blocked()
    assert woken == [0, 1, 2]


async def test_a_wake_without_a_task_is_remembered_once() -> None:
    signal = Signal()
    signal.wake()
    signal.wake()
    assert await signal.wait()
    assert not await signal.wait(timeout_ms=1)


async def test_a_wait_ends_by_wake_or_timeout(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    signal, found = Signal(), []

    async def wait(timeout_ms: float) -> None:
        found.append(await signal.wait(timeout_ms))

    await wait(1000)
    assert (found, trio.current_time()) == ([False], 1)
    nursery.start_soon(wait, 1000)
    await wait_all_tasks_blocked()
    signal.wake()
    await wait_all_tasks_blocked()
    assert (found, trio.current_time()) == ([False, True], 1)


async def test_a_cancelled_wait_leaves_the_place_free(nursery: trio.Nursery) -> None:
    signal = Signal()
    with trio.CancelScope() as scope:
        scope.cancel()
        await signal.wait()
    nursery.start_soon(signal.wait)
    await wait_all_tasks_blocked()
    with pytest.raises(AssertionError, match="already"):
        await signal.wait()
    signal.wake()


async def test_all_that_watch_are_woken_in_their_order(nursery: trio.Nursery) -> None:
    watchable, woken = Watchable(), []

    async def watch(number: int, signal: Signal) -> None:
        watchable.watch(signal)
        await signal.wait()
        woken.append(number)

    signals = [Signal() for _ in range(3)]
    for number, signal in enumerate(signals):
        nursery.start_soon(watch, number, signal)
    await wait_all_tasks_blocked()
    watchable.unwatch(signals[1])
    watchable.notify()
    await wait_all_tasks_blocked()
    assert sorted(woken) == [0, 2]
    signals[1].wake()


async def test_calls_of_one_tick_run_together_in_order(nursery: trio.Nursery) -> None:
    ticker, made = Ticker(nursery), []
    for number in range(3):
        ticker.soon(lambda number=number: made.append(number))
    assert made == []
    await wait_all_tasks_blocked()
    assert made == [0, 1, 2]


async def test_a_call_requested_by_a_call_runs_in_the_next_round(nursery: trio.Nursery) -> None:
    ticker, made = Ticker(nursery), []
    ticker.soon(lambda: ticker.soon(lambda: made.append("later")))
    await wait_all_tasks_blocked()
    assert made == ["later"]


async def test_gathered_calls_are_made_by_the_task_that_gathers(nursery: trio.Nursery) -> None:
    ticker, made = Ticker(nursery), []
    ticker.is_gathering = True
    for number in range(3):
        ticker.soon(lambda number=number: made.append(number))
    await wait_all_tasks_blocked()
    assert made == []
    ticker.make_gathered()
    assert made == [0, 1, 2]


async def test_gathered_calls_that_are_many_are_left_to_the_next_tick(nursery: trio.Nursery) -> None:
    ticker, made = Ticker(nursery), []
    ticker.is_gathering = True
    for number in range(CALLS_AT_ONCE + 1):
        ticker.soon(lambda number=number: made.append(number))
    ticker.make_gathered()
    assert made == []
    await wait_all_tasks_blocked()
    assert made == list(range(CALLS_AT_ONCE + 1))


async def test_a_change_wakes_all_that_wait_for_a_condition_and_is_not_remembered(nursery: trio.Nursery) -> None:
    condition, woken = Condition(), []

    async def wait() -> None:
        await condition.wait()
        woken.append(True)

    condition.notify()
    nursery.start_soon(wait)
    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert woken == [], "a change before the wait was looked at already"
    condition.notify()
    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert woken == [True, True]
    condition.notify()
    await wait_all_tasks_blocked()
    assert woken == [True, True, True]
