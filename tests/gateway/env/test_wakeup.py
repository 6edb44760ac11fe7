"""A task that sleeps until it is woken, and calls at the next tick."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from odradek.gateway.env.ticker import Ticker
from odradek.gateway.env.wakeup import Wakeup


async def test_the_sleeper_is_woken_once_a_wake(nursery: trio.Nursery) -> None:
    wakeup, woken = Wakeup(), []

    async def sleep_twice() -> None:
        for number in range(2):
            await wakeup.sleep()
            woken.append(number)

    nursery.start_soon(sleep_twice)
    await wait_all_tasks_blocked()
    wakeup.wake()
    wakeup.wake()
    await wait_all_tasks_blocked()
    assert woken == [0], "there is no memory: a second wake finds nobody asleep"
    wakeup.wake()
    await wait_all_tasks_blocked()
    assert woken == [0, 1]


async def test_a_cancelled_sleeper_leaves_the_place_free(nursery: trio.Nursery) -> None:
    wakeup = Wakeup()
    with trio.CancelScope() as scope:
        scope.cancel()
        await wakeup.sleep()
    wakeup.wake()
    with trio.CancelScope() as scope:
        nursery.start_soon(wakeup.sleep)
        await wait_all_tasks_blocked()
    with pytest.raises(AssertionError, match="already"):
        await wakeup.sleep()
    wakeup.wake()


async def test_calls_of_one_tick_run_together_in_order(nursery: trio.Nursery) -> None:
    ticker, made = Ticker(nursery), []
    for number in range(3):
        ticker.soon(lambda number=number: made.append(number))
    assert made == []
    await wait_all_tasks_blocked()
    assert made == [0, 1, 2]


async def test_a_call_that_asks_for_another_gets_it_in_the_next_round(nursery: trio.Nursery) -> None:
    ticker, made = Ticker(nursery), []
    ticker.soon(lambda: ticker.soon(lambda: made.append("later")))
    await wait_all_tasks_blocked()
    assert made == ["later"]
