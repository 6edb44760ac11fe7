"""The watch on the event loop counts work and blocking calls of its own thread, not a busy machine."""

import logging
import os
import threading
import time

import pytest
import trio
from gateway_brokers import ThreadBroker, logged
from gateway_client import RawClient

from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.env.loop_watch import LoopClocks, LoopWatch

LIMIT_MS = 20
TIMEOUT_S = 30


class _OnWarning(logging.Handler):
    """Calls back at the watch's warning, in the thread that logs it."""

    def __init__(self, call):
        super().__init__(logging.WARNING)
        self._call = call

    def emit(self, record):
        self._call()


@pytest.fixture
def on_warning():
    handlers = []

    def add(call):
        handler = _OnWarning(call)
        handlers.append(handler)
        logging.getLogger("odradek.gateway.env.loop_watch").addHandler(handler)

    yield add
    for handler in handlers:
        logging.getLogger("odradek.gateway.env.loop_watch").removeHandler(handler)


def _spin_busily(until_ns):
    while time.thread_time_ns() < until_ns:
        pass


async def _watched(*turns):
    """Runs each of `turns` in a separate turn, and returns the record."""
    with ProductionEnvironment().watch_loop(LIMIT_MS) as record:
        for turn in turns:
            await trio.sleep(0.001)
            turn()
        await trio.sleep(0.001)
        return record


def _busy():
    _spin_busily(time.thread_time_ns() + 10 * LIMIT_MS * 1_000_000)


def test_a_busy_turn_is_counted_once_with_its_stack(caplog):
    warned = threading.Event()

    def busy_until_told():
        while not warned.is_set():
            pass

    handler = _OnWarning(warned.set)
    logging.getLogger("odradek.gateway.env.loop_watch").addHandler(handler)
    try:
        record = trio.run(_watched, busy_until_told, lambda: None)
    finally:
        logging.getLogger("odradek.gateway.env.loop_watch").removeHandler(handler)
    assert record.long_turns == 1
    assert record.longest_ms >= LIMIT_MS
    assert "busy_until_told" in record.last_stack
    assert logged(caplog, logging.WARNING, "long_turns=1", "busy_until_told", "odradek.loop.stall.warn.ms")


def test_many_long_turns_are_counted_and_one_warning_is_given(caplog):
    record = trio.run(_watched, _busy, _busy, _busy)
    assert record.long_turns == 3
    assert len([each for each in caplog.records if each.name == "odradek.gateway.env.loop_watch"]) == 1


def test_a_turn_that_the_sampler_never_saw_is_counted(caplog):
    """A call may keep the interpreter for its whole duration; here the sampler's clock never advances."""

    async def main():
        clocks = LoopClocks(time.monotonic_ns, time.thread_time_ns, lambda _: lambda: 0)
        with LoopWatch(LIMIT_MS, clocks).watching() as record:
            await trio.sleep(0.001)
            _busy()
            await trio.sleep(0.001)
            return record

    assert trio.run(main).long_turns == 1
    assert logged(caplog, logging.WARNING, "long_turns=1")


@pytest.mark.parametrize(("long_ms", "counted"), [(103, 1), (99, 0)])
def test_the_processor_clock_is_read_now_and_then_and_a_long_turn_is_counted_all_the_same(long_ms, counted):
    """Turns of one millisecond of processor time each, and then one that is long, or almost."""
    now_ns, readings = 0, 0

    def cpu_ns():
        nonlocal readings
        readings += 1
        return now_ns

    async def main():
        nonlocal now_ns, readings
        watch = LoopWatch(100, LoopClocks(lambda: now_ns, cpu_ns, lambda _: lambda: 0))
        with watch.watching() as record:
            readings = 0
            for turn_ms in (*[1] * 42, long_ms):
                now_ns += turn_ms * 1_000_000
                watch.after_io_wait(0)
            assert readings == 11  # after every four milliseconds, and after the last turn
        return record

    assert trio.run(main).long_turns == counted


def test_a_blocking_call_is_counted_though_it_uses_no_processor(on_warning):
    reading, writing = os.pipe()
    on_warning(lambda: os.write(writing, b"x"))  # only the warning ends the call
    try:
        record = trio.run(_watched, lambda: os.read(reading, 1))
    finally:
        os.close(reading)
        os.close(writing)
    assert record.long_turns == 1
    assert "<lambda>" in record.last_stack


def test_the_sampler_rests_while_the_loop_is_idle_and_sees_the_turn_after(on_warning):
    reading, writing = os.pipe()
    on_warning(lambda: os.write(writing, b"x"))  # only the warning ends the call

    def until_it_rests(watch):
        while not watch.is_resting:
            threading.Event().wait(0.001)

    async def main():
        watch = LoopWatch(LIMIT_MS, LoopClocks(time.monotonic_ns, lambda: 0, lambda _: lambda: 0))
        with watch.watching() as record:
            await trio.to_thread.run_sync(until_it_rests, watch)
            os.read(reading, 1)
            assert not watch.is_resting
            return record

    try:
        assert trio.run(main).long_turns == 1
    finally:
        os.close(reading)
        os.close(writing)


def test_a_thread_that_gets_no_processor_is_not_held_to_blame():
    """The wall clock advances and the thread's processor clock does not, as when others have the processor."""
    looks = threading.Semaphore(0)

    def steady_ns():
        looks.release()
        return time.monotonic_ns()

    def runs_but_slowly():
        for _ in range(20):  # samples: five times the limit
            assert looks.acquire(blocking=False) or _spin_until(looks)

    async def main():
        watch = LoopWatch(LIMIT_MS, LoopClocks(steady_ns, lambda: 0, lambda _: lambda: 0))
        with watch.watching() as record:
            await trio.sleep(0.001)
            runs_but_slowly()
            await trio.sleep(0.001)
            return record

    assert trio.run(main).long_turns == 0


def _spin_until(looks):
    while not looks.acquire(blocking=False):
        pass
    return True


def test_waiting_for_clients_is_no_turn():
    looks = trio.Event()

    async def main():
        with ProductionEnvironment().watch_loop(LIMIT_MS) as record:
            token = trio.lowlevel.current_trio_token()
            reading, writing = os.pipe()
            waker = threading.Thread(target=lambda: (os.read(reading, 1), token.run_sync_soon(looks.set)))
            waker.start()
            with trio.move_on_after(5 * LIMIT_MS / 1000):  # idle for five times the limit
                await looks.wait()
            os.write(writing, b"x")
            await trio.to_thread.run_sync(waker.join)
            os.close(reading)
            os.close(writing)
            return record

    assert trio.run(main).long_turns == 0


def test_a_broker_watches_its_loop(caplog, on_warning):
    warned = threading.Event()
    on_warning(warned.set)
    with ThreadBroker(odradek_loop_stall_warn_ms=LIMIT_MS) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        broker.in_trio(_busy)
        assert warned.wait(TIMEOUT_S)
        assert broker.broker.services.loop.long_turns >= 1
    assert logged(caplog, logging.WARNING, "the event loop was held up", "_busy")
