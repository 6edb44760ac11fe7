"""Time-outs of results that are not set in time."""

import weakref

import trio
from trio.testing import MockClock

from odradek.gateway.env.completion import Completion, completed
from odradek.gateway.env.deadlines import SWEEP_FROM, Deadlines
from odradek.gateway.env.environment import ProductionEnvironment


class VirtualTime(ProductionEnvironment):
    def monotonic_ms(self) -> int:
        return int(trio.current_time() * 1000)


async def test_each_wait_ends_at_its_own_time(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    deadlines, ended, start = Deadlines(VirtualTime(), nursery), [], trio.current_time()
    for timeout_ms in (5000, 1000, 5000, 30):
        deadlines.watch(
            Completion(), timeout_ms, lambda timeout_ms=timeout_ms: ended.append((timeout_ms, trio.current_time()))
        )
    await trio.sleep(10)
    assert [(timeout_ms, round(at - start, 1)) for timeout_ms, at in ended] == [
        (30, 0.0), (1000, 1.0), (5000, 5.0), (5000, 5.0)
    ]  # fmt: skip


async def test_a_result_that_came_in_time_ends_its_wait(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    deadlines, ended = Deadlines(VirtualTime(), nursery), list[int]()
    results = [Completion[None]() for _ in range(3)]
    for number, result in enumerate(results):
        deadlines.watch(result, 1000, lambda number=number: ended.append(number))
    deadlines.watch(completed(None), 1, lambda: ended.append(99))
    results[1].settle(None)
    await trio.sleep(5)
    assert ended == [0, 2]


async def test_a_wait_begun_later_is_not_forgotten(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    deadlines, ended = Deadlines(VirtualTime(), nursery), list[str]()
    deadlines.watch(Completion(), 1000, lambda: ended.append("first"))
    await trio.sleep(2)
    deadlines.watch(Completion(), 1000, lambda: ended.append("second"))
    deadlines.watch(Completion(), 10_000, lambda: deadlines.watch(Completion(), 10, lambda: ended.append("third")))
    await trio.sleep(20)
    assert ended == ["first", "second", "third"]


class Wait:
    """A waiter that can be checked for remaining references."""

    def __init__(self) -> None:
        self.settled = False


async def test_waits_that_ended_behind_one_that_is_open_are_released(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    deadlines, ended = Deadlines(VirtualTime(), nursery), list[str]()
    deadlines.watch(Wait(), 60_000, lambda: ended.append("first"))
    kept = weakref.WeakSet[Wait]()
    for _ in range(20 * SWEEP_FROM):
        wait = Wait()
        kept.add(wait)
        deadlines.watch(wait, 60_000, lambda: ended.append("settled"))
        wait.settled = True
    assert len(kept) <= 2 * SWEEP_FROM
    deadlines.watch(Wait(), 60_000, lambda: ended.append("last"))
    await trio.sleep(100)
    assert ended == ["first", "last"]
    assert len(kept) <= 1, "the loop's own variable"


async def test_waits_may_begin_while_others_of_their_length_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    deadlines, ended = Deadlines(VirtualTime(), nursery), list[str]()

    def go_on() -> None:
        for _ in range(2 * SWEEP_FROM):
            deadlines.watch(completed(None), 1000, lambda: ended.append("settled"))
        deadlines.watch(Completion(), 1000, lambda: ended.append("next"))

    deadlines.watch(Completion(), 1000, go_on)
    for _ in range(SWEEP_FROM):
        deadlines.watch(Completion(), 1000, lambda: ended.append("open"))
    await trio.sleep(3)
    assert ended == ["open"] * SWEEP_FROM + ["next"]


async def test_results_that_have_come_are_not_kept_whatever_their_time_outs(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Each client chooses its own; a request would otherwise be kept until its time-out."""
    deadlines = Deadlines(VirtualTime(), nursery)

    class Result(Completion[None]):
        """With a `__dict__`, and so with weak references."""

    kept: weakref.WeakSet[Result] = weakref.WeakSet()
    for number in range(10 * SWEEP_FROM):
        result = Result()
        kept.add(result)
        deadlines.watch(result, 100_000_000 + number, lambda: None)
        result.settle(None)
        del result
    assert len(kept) <= 2 * SWEEP_FROM
