"""A poller that waits in the place of Trio's loop saves its turns, and keeps nothing from what else there is to do."""

import socket
import threading
import time

import pytest
import trio
import trio.testing

from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.net.poller import EpollPoller
from odradek.gateway.net.transport import TcpTransport, dial_tcp, listen_tcp

HOST = "127.0.0.1"
ROUNDS = 50
LIMIT_MS = 20


class Turns(trio.abc.Instrument):
    """Counts the turns of the loop."""

    def __init__(self):
        self.count = 0

    def before_io_wait(self, timeout):
        del timeout
        self.count += 1


class Polled:
    """A connection whose accepted end a poller reports, which waits in place. `in_place` counts how often it did."""

    def __init__(self, on_turn=lambda _: None):
        self.in_place = 0
        self._on_turn = on_turn

    async def __aenter__(self):
        [listener] = await listen_tcp(HOST, 0)
        self.here = await dial_tcp(*listener.address)
        self.there = await listener.accept()
        listener.close()
        self.poller = EpollPoller(self._note)
        self.poller.register(self.there, "there")
        await trio.testing.wait_all_tasks_blocked()
        return self

    async def __aexit__(self, *_):
        self.poller.close()
        self.here.close()
        self.there.close()

    def _note(self, timeout_s):
        self.in_place += 1
        self._on_turn(timeout_s)

    async def news(self):
        with trio.fail_after(10):
            while not await self.poller.wait():
                pass
        data = bytearray(10)
        return bytes(data[: self.there.receive_now(memoryview(data))])

    def ask(self, data=b"x"):
        assert not self.here.send_now([data])

    async def settle(self):
        """Let the next wait be one in place: the task is alone from a turn of the loop on."""
        self.ask()
        assert await self.news() == b"x"
        while self.poller.takes_turns:
            self.ask()
            await self.news()


@pytest.fixture
async def turns():
    counter = Turns()
    trio.lowlevel.add_instrument(counter)
    yield counter
    trio.lowlevel.remove_instrument(counter)


async def test_a_task_that_is_alone_gets_its_news_without_turns(turns):
    async with Polled() as polled:
        await polled.settle()
        before = turns.count
        for number in range(ROUNDS):
            polled.ask(b"%d" % number)
            assert await polled.news() == b"%d" % number
        assert turns.count == before
        assert polled.in_place >= ROUNDS


async def test_another_task_that_can_run_gets_its_turns(turns):
    async with Polled() as polled, trio.open_nursery() as nursery:
        await polled.settle()
        steps = []

        async def other():
            while len(steps) < ROUNDS:
                steps.append(len(steps))
                await trio.lowlevel.checkpoint()

        nursery.start_soon(other)
        while len(steps) < ROUNDS:
            polled.ask()
            await polled.news()
    assert steps == list(range(ROUNDS))


async def test_a_deadline_of_another_task_ends_a_wait():
    async with Polled() as polled, trio.open_nursery() as nursery:
        await polled.settle()

        async def speak_later():
            await trio.sleep(0.01)
            polled.ask(b"late")

        nursery.start_soon(speak_later)
        assert await polled.news() == b"late"


async def test_a_deadline_of_its_own_ends_a_wait():
    async with Polled() as polled:
        await polled.settle()
        with trio.move_on_after(0.01) as scope:
            while True:
                await polled.poller.wait()
        assert scope.cancelled_caught


async def test_a_thread_ends_a_wait():
    async with Polled() as polled, trio.open_nursery() as nursery:
        await polled.settle()
        may_end, token = threading.Event(), trio.lowlevel.current_trio_token()

        async def speak_when_woken():
            await trio.to_thread.run_sync(may_end.wait)
            polled.ask(b"woken")

        nursery.start_soon(speak_when_woken)
        await trio.lowlevel.checkpoint()
        threading.Timer(0.01, may_end.set).start()
        assert await polled.news() == b"woken"
        threading.Timer(0.01, token.run_sync_soon, [polled.ask, b"called"]).start()
        assert await polled.news() == b"called"


async def test_another_descriptor_ends_a_wait():
    async with Polled() as polled, trio.open_nursery() as nursery:
        reading, writing = socket.socketpair()
        with reading, writing:

            async def speak_when_readable():
                await trio.lowlevel.wait_readable(reading)
                polled.ask(b"read")

            nursery.start_soon(speak_when_readable)
            await polled.settle()
            threading.Timer(0.01, writing.send, [b"x"]).start()
            assert await polled.news() == b"read"


async def test_after_something_else_has_ended_a_wait_the_loop_takes_its_turns_for_a_while():
    async with Polled() as polled:
        await polled.settle()
        token = trio.lowlevel.current_trio_token()
        threading.Timer(0.01, token.run_sync_soon, [polled.ask]).start()
        await polled.news()
        assert polled.poller.takes_turns
        before = polled.in_place
        polled.ask()
        await polled.news()
        assert polled.in_place == before
        await polled.settle()


async def test_with_several_connections_at_once_the_loop_takes_its_turns():
    async with Polled() as polled, Polled() as other:
        polled.poller.register(other.there, "other")
        await polled.settle()
        polled.ask()
        other.ask()
        with trio.fail_after(10):
            while len(await polled.poller.wait()) < 2:
                polled.ask()
                other.ask()
        assert polled.poller.takes_turns


async def test_who_waits_until_all_tasks_are_blocked_is_woken():
    async with Polled() as polled, trio.open_nursery() as nursery:
        await polled.settle()

        async def speak_when_idle():
            await trio.testing.wait_all_tasks_blocked(0.01)
            polled.ask(b"idle")

        nursery.start_soon(speak_when_idle)
        assert await polled.news() == b"idle"


def test_under_another_clock_the_loop_takes_its_turns():
    async def main():
        async with Polled() as polled:
            polled.ask()
            await polled.news()
            assert polled.poller.takes_turns
            assert not polled.in_place

    trio.run(main, clock=trio.testing.MockClock(rate=1))


def test_the_watch_on_the_loop_counts_a_wait_in_place_as_none_and_work_between_two_as_a_turn():
    async def main():
        env = ProductionEnvironment()
        with env.watch_loop(LIMIT_MS) as record:
            poller = env.poller()
            async with Polled() as polled:
                polled.poller.close()
                poller.register(polled.there, "there")
                polled.poller = poller
                await polled.settle()
                threading.Timer(5 * LIMIT_MS / 1000, polled.ask).start()
                await polled.news()
                long_waits = record.long_turns
                await polled.settle()
                began_s = time.thread_time()
                while time.thread_time() - began_s < 3 * LIMIT_MS / 1000:
                    pass
                polled.ask()
                await polled.news()
        return long_waits, record.long_turns

    assert trio.run(main) == (0, 1)


async def test_a_transport_is_reported_with_its_end():
    async with Polled() as polled:
        await polled.settle()
        polled.here.close()
        assert await polled.news() == b""
        assert isinstance(polled.there, TcpTransport)
