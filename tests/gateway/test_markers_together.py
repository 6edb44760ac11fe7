"""Concurrent operations, such as writing markers: results in order, and a bound on concurrency."""

import pytest
import trio

from odradek.gateway.handling.together import AT_ONCE, all_of


@pytest.mark.parametrize("count", [0, 1, 2, AT_ONCE + 50])
async def test_answers_come_in_the_order_of_the_things(count, autojump_clock):
    under_way = most = 0

    async def call(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await trio.sleep((count - number) / 100)
        under_way -= 1
        return number * 2

    assert await all_of(call, range(count)) == [number * 2 for number in range(count)]
    assert most == min(count, AT_ONCE)


async def test_many_take_as_long_as_one(autojump_clock):
    async def call(_number: int) -> None:
        await trio.sleep(1)

    began = trio.current_time()
    await all_of(call, range(AT_ONCE))
    assert trio.current_time() - began == pytest.approx(1)


async def test_a_failure_ends_the_others(autojump_clock):
    async def call(number: int) -> None:
        await trio.sleep(1)
        if number == 3:
            raise ValueError(number)
        await trio.sleep(10)

    began = trio.current_time()
    with pytest.RaisesGroup(ValueError):
        await all_of(call, range(10))
    assert trio.current_time() - began == pytest.approx(1)
