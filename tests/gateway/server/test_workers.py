"""Which tasks serve connections, tested with scripted connections and no network."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import trio
import trio.testing

from odradek.gateway.env.signals import Signal, Ticker
from odradek.gateway.server.first_wait import resumed
from odradek.gateway.server.workers import SERVED_IN_A_ROW, SPARE_WORKERS, Connection, Worker, Workers


class ScriptPoller:
    """Reports the readiness that the test sets."""

    def __init__(self) -> None:
        self._news: list[Connection] = []
        self._changed = Signal()
        self.closed = False

    def report(self, *connections: Connection) -> None:
        self._news += connections
        self._changed.wake()

    def register(self, transport, key) -> None:
        raise NotImplementedError

    def unregister(self, transport) -> None:
        raise NotImplementedError

    async def wait(self) -> Sequence[Connection]:
        await self._changed.wait()
        return self.ready()

    def ready(self) -> Sequence[Connection]:
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        self.closed = True


class ScriptConnection:
    """Records when and by which task it is served; waits for `go_on` if `waits`; has input for `rounds` rounds."""

    def __init__(self, name: str, served: list[str], *, waits: bool = False, rounds: int = 1) -> None:
        self.name = name
        self.go_on = trio.Event()
        self.workers: list[Worker] = []
        self._served = served
        self._waits = waits
        self._rounds = rounds
        self.on_serve: Callable[[], object] = lambda: None

    async def serve(self, worker: Worker) -> bool:
        self.workers.append(worker)
        self._served.append(f"{self.name} begins")
        self.on_serve()
        if self._waits:
            await self.go_on.wait()
        self._served.append(f"{self.name} ends")
        self._rounds -= 1
        return self._rounds > 0

    def begins_to_wait(self) -> None:
        self._served.append(f"{self.name} waits")


def begun(served: list[str]) -> list[str]:
    return [each.split()[0] for each in served if each.endswith("begins")]


class Serving:
    """Running workers, with a record of what they have served."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.poller = ScriptPoller()
        self.ticker = Ticker(nursery)
        self.workers = Workers(self.poller, self.ticker)
        self.served: list[str] = []

    def connection(self, name: str, *, waits: bool = False, rounds: int = 1) -> ScriptConnection:
        return ScriptConnection(name, self.served, waits=waits, rounds=rounds)

    async def report(self, *connections: ScriptConnection) -> None:
        self.poller.report(*connections)
        await trio.testing.wait_all_tasks_blocked()


async def test_connections_that_do_not_wait_are_served_by_one_task_in_one_turn(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    all_of_them = [serving.connection(str(number)) for number in range(5)]
    await serving.report(*all_of_them)
    assert begun(serving.served) == ["0", "1", "2", "3", "4"]
    assert len({id(each.workers[0]) for each in all_of_them}) == 1


async def test_while_one_waits_the_others_are_served_by_another_task(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    slow, quick, later = (
        serving.connection("slow", waits=True),
        serving.connection("quick"),
        serving.connection("later"),
    )
    await serving.report(slow, quick)
    await serving.report(later)
    assert serving.served == [
        "slow begins",
        "slow waits",
        *(f"{each} {step}" for each in ("quick", "later") for step in ("begins", "ends")),
    ]
    assert quick.workers == later.workers != slow.workers
    slow.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert serving.served[-1] == "slow ends"


async def test_a_task_that_has_waited_serves_its_connection_until_it_has_caught_up(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    slow = serving.connection("slow", waits=True, rounds=3)
    await serving.report(slow)
    slow.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert begun(serving.served) == ["slow"] * 3
    assert slow.workers[1:] == slow.workers[:1] * 2


async def test_a_connection_with_more_to_receive_lets_others_go_first(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    await serving.report(serving.connection("much", rounds=3), serving.connection("a"), serving.connection("b"))
    assert begun(serving.served) == ["much", "a", "b", "much", "much"]


class TurnCounter(trio.abc.Instrument):
    """Counts the turns of the scheduler."""

    def __init__(self) -> None:
        self.turns = 0

    def before_io_wait(self, timeout: float) -> None:
        del timeout
        self.turns += 1


async def test_news_that_comes_while_a_connection_is_served_takes_no_other_turn_once(nursery):
    serving, counter = Serving(nursery), TurnCounter()
    trio.lowlevel.add_instrument(counter)
    nursery.start_soon(serving.workers.run)
    served_in: list[int] = []
    chain = [serving.connection(name) for name in ("first", "meanwhile", "last")]

    def note(then: Sequence[ScriptConnection]) -> None:
        served_in.append(counter.turns)
        serving.poller.report(*then)

    for number, one in enumerate(chain, 1):
        one.on_serve = partial(note, chain[number : number + 1])
    await serving.report(chain[0])
    first, meanwhile, last = served_in
    assert first == meanwhile < last


async def test_what_the_served_leave_to_the_ticker_is_done_before_the_leader_looks_once_more(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    first, then = serving.connection("first"), serving.connection("then")

    def leave_a_call() -> None:
        serving.ticker.soon(lambda: serving.served.append("called"))
        serving.poller.report(then)

    first.on_serve = leave_a_call
    await serving.report(first)
    assert serving.served == ["first begins", "first ends", "called", "then begins", "then ends"]


async def test_other_tasks_get_turns_while_very_many_are_served(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    seen: list[int] = []

    async def look() -> None:
        while len(serving.served) < 20 * SERVED_IN_A_ROW:
            seen.append(len(serving.served) // 2)
            await trio.lowlevel.checkpoint()

    nursery.start_soon(look)
    await serving.report(*(serving.connection(str(number)) for number in range(10 * SERVED_IN_A_ROW)))
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 2 * SERVED_IN_A_ROW


async def test_catching_up_ends_when_those_are_served_that_were_known(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    endless = serving.connection("endless", rounds=10**9)
    many = [serving.connection(str(number), waits=number % 2 == 0) for number in range(100)]
    serving.poller.report(endless, *many)
    while not serving.served:
        await trio.lowlevel.checkpoint()
    with trio.fail_after(5):
        await serving.workers.catch_up()
    assert set(begun(serving.served)) >= {str(number) for number in range(100)}
    nursery.cancel_scope.cancel()


async def test_interrupting_ends_the_wait_of_one_connection_alone(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    one, other = serving.connection("one", waits=True), serving.connection("other", waits=True)
    await serving.report(one, other)
    one.workers[0].interrupt()
    await trio.testing.wait_all_tasks_blocked()
    other.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert serving.served == ["one begins", "one waits", "other begins", "other waits", "other ends"]
    again = [serving.connection(str(number), waits=True) for number in range(5)]
    await serving.report(*again)
    for each in again:
        each.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert len([each for each in serving.served if each.endswith("ends")]) == 6


async def test_an_interruption_that_comes_too_late_ends_nothing_else(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    one, then = serving.connection("one", waits=True), [serving.connection(name, waits=True) for name in "abc"]
    await serving.report(one)
    one.go_on.set()  # it continues in the next turn, and has nothing more to wait for
    one.workers[0].interrupt()
    await trio.testing.wait_all_tasks_blocked()
    for each in then:
        await serving.report(each)
    assert begun(serving.served) == ["one", "a", "b", "c"]
    for each in then:
        each.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(each for each in serving.served if each.endswith("ends")) == [
        "a ends",
        "b ends",
        "c ends",
        "one ends",
    ]


async def test_interrupting_the_task_that_leads_changes_nothing(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    first = serving.connection("first")
    await serving.report(first)
    first.workers[0].interrupt()
    await serving.report(serving.connection("second"))
    assert serving.served[-1] == "second ends"


async def test_few_tasks_are_left_when_many_waited(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    await trio.testing.wait_all_tasks_blocked()
    before = trio.lowlevel.current_statistics().tasks_living
    many = [serving.connection(str(number), waits=True) for number in range(3 * SPARE_WORKERS)]
    await serving.report(*many)
    assert len({id(each.workers[0]) for each in many}) == len(many)
    for each in many:
        each.go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living <= before + SPARE_WORKERS


async def test_the_end_ends_all_waits_and_closes_the_poller():
    async with trio.open_nursery() as nursery:
        serving = Serving(nursery)
        slow = serving.connection("slow", waits=True)
        nursery.start_soon(serving.workers.run)
        await serving.report(slow)
        nursery.cancel_scope.cancel()
    assert serving.poller.closed
    assert serving.served == ["slow begins", "slow waits"]


async def add(one: int, *, waits: int) -> int:
    for _ in range(waits):
        await trio.lowlevel.checkpoint()
    return one + waits


async def test_a_call_that_was_begun_by_hand_goes_on():
    begun_call = add(1, waits=3)
    assert await resumed(begun_call, begun_call.send(None)) == 4


async def test_an_error_comes_out_after_a_wait():
    async def fails() -> None:
        raise KeyError(await add(0, waits=1))

    begun_call = fails()
    with pytest.raises(KeyError):
        await resumed(begun_call, begun_call.send(None))


async def test_cancellation_gets_to_what_is_awaited():
    ends: list[str] = []

    async def waits() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ends.append("cleaned up")

    with trio.move_on_after(0):
        begun_call = waits()
        await resumed(begun_call, begun_call.send(None))
    assert ends == ["cleaned up"]


async def test_what_connections_leave_to_the_next_tick_is_done_when_all_of_them_are_served(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    writes, reads = serving.connection("writes"), serving.connection("reads")
    writes.on_serve = lambda: serving.ticker.soon(lambda: serving.served.append("commit"))
    await serving.report(writes, reads)
    assert serving.served == ["writes begins", "writes ends", "reads begins", "reads ends", "commit"]


async def test_what_they_leave_is_done_although_one_of_them_waits(nursery):
    serving = Serving(nursery)
    nursery.start_soon(serving.workers.run)
    writes, slow = serving.connection("writes"), serving.connection("slow", waits=True)
    writes.on_serve = lambda: serving.ticker.soon(lambda: serving.served.append("commit"))
    await serving.report(writes, slow)
    assert serving.served == ["writes begins", "writes ends", "slow begins", "slow waits", "commit"]
    slow.go_on.set()
