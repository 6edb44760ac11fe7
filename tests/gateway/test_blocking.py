"""The thread pool for blocking calls: results, limits and cancellation; no result is lost."""

import threading
from functools import partial

import pytest
import trio
from outcome import Outcome, Value
from trio.testing import wait_all_tasks_blocked

from odradek.gateway.env import worker_pool as blocking
from odradek.gateway.env.worker_pool import BlockingPool


async def test_each_caller_gets_its_own_result() -> None:
    pool = BlockingPool(4)
    got: dict[int, int] = {}

    async def ask(number: int) -> None:
        got[number] = await pool.run(lambda: number * number)

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(ask, number)
    assert got == {number: number * number for number in range(200)}


async def test_an_error_is_raised_where_the_call_was_made() -> None:
    pool = BlockingPool(1)
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0)
    assert await pool.run(lambda: "still there") == "still there"


async def test_as_many_calls_run_at_once_as_there_are_threads_and_no_more() -> None:
    pool = BlockingPool(3)
    running, most, mutex = 0, 0, threading.Lock()
    together = threading.Barrier(3)  # opens only when three calls run at once

    def call() -> None:
        nonlocal running, most
        with mutex:
            running += 1
            most = max(most, running)
        together.wait(timeout=60)
        with mutex:
            running -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(9):
            nursery.start_soon(pool.run, call)
    assert most == 3


async def test_calls_beyond_the_limit_run_in_the_order_of_asking() -> None:
    pool, ran = BlockingPool(1), list[int]()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            pool.start(partial(ran.append, number), lambda _: None)
        nursery.start_soon(pool.run, lambda: None)
    assert ran == list(range(20))


async def test_calls_one_after_the_other_run_in_the_thread_that_was_busy_last() -> None:
    pool = BlockingPool(4)
    all_busy = threading.Barrier(4)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(pool.run, partial(all_busy.wait, 60))
    idents = {await pool.run(threading.get_ident) for _ in range(20)}
    assert len(idents) == 1


async def test_a_started_call_is_waited_for_though_cancelled() -> None:
    pool = BlockingPool(1)
    gate, done = threading.Event(), []

    def call() -> str:
        gate.wait()
        done.append("done")
        return "result"

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, call)
            await wait_all_tasks_blocked()
            scope.cancel()
            gate.set()
    assert done == ["done"]


async def test_a_cancelled_caller_starts_nothing() -> None:
    pool = BlockingPool(1)
    done: list[int] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await pool.run(lambda: done.append(1))
    assert done == []


async def test_threads_that_ended_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "IDLE_S", 0.0)
    pool = BlockingPool(2)
    for number in range(100):
        assert await pool.run(lambda: number) == number  # noqa: B023 - called before the next round


async def test_started_calls_are_delivered_on_the_loop_with_what_came_of_them() -> None:
    pool = BlockingPool(2)
    here, delivered, all_there = threading.get_ident(), [], trio.Event()

    def deliver(number: int, result: Outcome[int]) -> None:
        delivered.append((number, isinstance(result, Value), threading.get_ident()))
        if len(delivered) == 20:
            all_there.set()

    for number in range(20):
        pool.start(partial(lambda number: 1 // (number % 2), number), partial(deliver, number))
    await all_there.wait()
    assert sorted(delivered) == [(number, bool(number % 2), here) for number in range(20)]
