"""The commit path: nothing is acknowledged before its commit, one commit in flight, the rest coalesced."""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import pytest
import trio
from outcome import Outcome, acapture
from trio.testing import wait_all_tasks_blocked

from odradek.gateway.env.durations import Durations
from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.env.signals import Ticker
from odradek.gateway.replication.commit import Backlog, CommitQueue, UnexpectedError
from odradek.partitions.model import LogWrite, PartitionKey, StoredBatch
from odradek.storage_backends.interface import StoreError, StoreFullError

T = TypeVar("T")
KEY = PartitionKey("t", UUID(int=5), 0)


class GatedStore:
    """A store whose commits wait for a permit, and which fails when the test sets a failure."""

    def __init__(self) -> None:
        self.key = KEY
        self.commits: list[list[LogWrite]] = []
        self.failure: Exception | None = None
        self.failed = False
        self.waits = False
        self.unsynced_commit_bytes = 500

    def commit(self, writes: list[LogWrite], *, sync: bool) -> None:
        if self.failure is not None:
            raise self.failure
        self.commits.append(list(writes))

    def commit_at_once(self, writes: list[LogWrite]) -> bool:
        if self.waits:
            return False
        self.commit(writes, sync=False)
        return True


class GatedEnvironment(ProductionEnvironment):
    """Runs blocking calls inline, each after a permit."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = trio.Semaphore(0)

    async def run_blocking(self, call: Callable[[], T]) -> T:
        await self.permits.acquire()
        return call()

    def start_blocking(self, nursery: trio.Nursery, call: Callable[[], T], deliver: Callable[[Outcome[T]], object]):
        async def run() -> None:
            deliver(await acapture(self.run_blocking, call))

        nursery.start_soon(run)


class Bench:
    def __init__(self, nursery: trio.Nursery, *, sync: bool = True) -> None:
        self.store, self.env = GatedStore(), GatedEnvironment()
        self.backlog = Backlog(2000)
        self.durable: list[int] = []
        self.failures: list[StoreError] = []
        self.defective: list | None = None  # raises when it is reported
        self.times = Durations()
        self.queue = CommitQueue(
            self.store,  # type: ignore[arg-type]
            self.env,
            Ticker(nursery),
            self.backlog,
            max_bytes=1000,
            synced=sync,
            times=self.times,
            on_durable=lambda end_offset: self.tell(self.durable, end_offset),
            on_failure=lambda error: self.tell(self.failures, error),
        )

    def tell(self, reported: list[T], what: T) -> None:
        if reported is self.defective:
            raise AssertionError("a defect")
        reported.append(what)


def write(offset: int, size: int = 10) -> LogWrite:
    return LogWrite(batches=(StoredBatch(offset, offset, -1, b"x" * size),))


async def test_a_write_settles_only_after_its_commit(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    durable = bench.queue.submit(write(0), 1)
    await wait_all_tasks_blocked()
    assert not durable.settled
    assert bench.durable == []
    bench.env.permits.release()
    await durable.wait()
    assert bench.durable == [1]


async def test_what_arrives_during_a_commit_goes_into_the_next_as_one(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    first = bench.queue.submit(write(0), 1)
    await wait_all_tasks_blocked()
    later = {id(bench.queue.submit(write(offset), offset + 1)): offset for offset in range(1, 6)}
    assert len(later) == 1, "writes of one commit share a completion"
    bench.env.permits.release()
    await first.wait()
    assert bench.durable == [1]
    bench.env.permits.release()
    await bench.queue.drained()
    assert [len(commit) for commit in bench.store.commits] == [1, 5]
    assert bench.durable == [1, 6]


async def test_writes_of_one_tick_share_a_commit(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    for offset in range(3):
        bench.queue.submit(write(offset), offset + 1)
    bench.env.permits.release()
    await bench.queue.drained()
    assert [len(commit) for commit in bench.store.commits] == [3]


async def test_a_failed_commit_fails_everything_behind_it(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    bench.store.failure = StoreFullError("disk full")
    first = bench.queue.submit(write(0), 1)
    await wait_all_tasks_blocked()
    behind = bench.queue.submit(write(1), 2)
    bench.env.permits.release()
    with pytest.raises(StoreFullError):
        await first.wait()
    with pytest.raises(StoreFullError):
        await behind.wait()
    assert bench.durable == []
    assert bench.failures == [bench.store.failure]
    with pytest.raises(StoreFullError):
        bench.queue.submit(write(2), 3)


def raise_a_defect(_: object) -> None:
    raise AssertionError("a defect")


@pytest.mark.parametrize("sync", [True, False])
async def test_what_is_raised_when_a_commit_is_done_fails_the_log_and_ends_nothing(
    nursery: trio.Nursery, sync: bool
) -> None:
    bench, other = Bench(nursery, sync=sync), Bench(nursery, sync=sync)
    for each in (bench, other):
        each.env.permits = trio.Semaphore(9)
    bench.defective = bench.durable
    writes = [bench.queue.submit(write(0, size=2000), 1), bench.queue.submit(write(1), 2)]
    for each in writes:
        with pytest.raises(UnexpectedError, match="unexpected AssertionError: a defect"):
            await each.wait()
    assert [type(error.__cause__) for error in bench.failures] == [AssertionError]
    assert bench.backlog.size_bytes == 0
    with pytest.raises(UnexpectedError):
        bench.queue.submit(write(2), 3)
    await other.queue.submit(write(0), 1).wait()
    bench.defective = None
    bench.queue.reset(bench.store)
    await bench.queue.submit(write(1), 2).wait()
    assert (bench.durable, other.durable) == ([2], [1])


@pytest.mark.parametrize("sync", [True, False])
async def test_a_callback_that_raises_fails_the_log_after_the_others_were_called(
    nursery: trio.Nursery, sync: bool
) -> None:
    bench, reported = Bench(nursery, sync=sync), list[str]()
    bench.env.permits = trio.Semaphore(9)
    done = bench.queue.submit(write(0, size=2000), 1)
    behind = bench.queue.submit(write(1), 2)
    done.on_settled(raise_a_defect)
    done.on_settled(lambda _: reported.append("done"))
    behind.on_settled(raise_a_defect)
    behind.on_settled(lambda _: reported.append("behind"))
    await done.wait()
    with pytest.raises(UnexpectedError):
        await behind.wait()
    await bench.queue.drained()
    assert (reported, bench.durable, len(bench.failures)) == (["done", "behind"], [1], 1)
    assert bench.backlog.size_bytes == 0


async def test_a_failure_whose_report_raises_fails_the_waiting_writes(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    bench.env.permits = trio.Semaphore(9)
    bench.defective = bench.failures
    bench.store.failure = StoreFullError("disk full")
    with pytest.raises(StoreFullError):
        await bench.queue.submit(write(0), 1).wait()


async def test_after_a_reset_it_accepts_again(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    bench.store.failure = StoreFullError("disk full")
    durable = bench.queue.submit(write(0), 1)
    bench.env.permits.release()
    with pytest.raises(StoreFullError):
        await durable.wait()
    bench.store.failure = None
    bench.queue.reset(bench.store)
    again = bench.queue.submit(write(0), 1)
    bench.env.permits.release()
    await again.wait()
    assert bench.durable == [1]


async def test_small_commits_without_sync_are_done_inline(nursery: trio.Nursery) -> None:
    bench = Bench(nursery, sync=False)
    await bench.queue.submit(write(0), 1).wait()
    assert bench.durable == [1], "no permit was needed"
    big = bench.queue.submit(write(1, size=100_000), 2)
    await wait_all_tasks_blocked()
    assert not big.settled, "a big one goes to a thread"
    bench.env.permits.release()
    await big.wait()


async def test_a_small_commit_that_would_wait_for_the_disk_goes_to_a_thread(nursery: trio.Nursery) -> None:
    bench = Bench(nursery, sync=False)
    bench.store.waits = True
    rolls = bench.queue.submit(write(0), 1)
    await wait_all_tasks_blocked()
    assert not rolls.settled
    bench.store.waits = False
    behind = bench.queue.submit(write(1), 2)
    await wait_all_tasks_blocked()
    assert not behind.settled, "it must not overtake the one in the thread"
    bench.env.permits.release()
    await behind.wait()
    assert bench.durable == [1, 2]


async def test_a_cancelled_waiter_leaves_the_commit_under_way(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    durable = bench.queue.submit(write(0), 1)
    with trio.move_on_after(0):
        await durable.wait()
    bench.env.permits.release()
    await bench.queue.drained()
    assert bench.durable == [1]


async def test_callbacks_run_in_the_order_they_were_asked_for(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    order: list[int] = []
    durable = bench.queue.submit(write(0), 1)
    for number in range(3):
        durable.on_settled(lambda _, number=number: order.append(number))
    bench.env.permits.release()
    await durable.wait()
    durable.on_settled(lambda _: order.append(9))
    assert order == [0, 1, 2, 9]


async def test_a_commit_takes_no_more_than_its_bytes(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    completions = [bench.queue.submit(write(offset, size=400), offset + 1) for offset in range(5)]
    for _ in range(3):
        bench.env.permits.release()
    await completions[-1].wait()
    assert [len(commit) for commit in bench.store.commits] == [3, 2]


@pytest.mark.parametrize(("sync", "commits"), [(False, [3, 2]), (True, [5])])
async def test_a_store_limits_the_bytes_of_a_commit_without_sync(
    nursery: trio.Nursery, sync: bool, commits: list[int]
) -> None:
    bench = Bench(nursery, sync=sync)
    for offset in range(5):
        bench.queue.submit(write(offset, size=199), offset + 1)
    bench.env.permits.release()
    await bench.queue.drained()
    assert [len(commit) for commit in bench.store.commits] == commits
    assert bench.durable[-1] == 5


async def test_producers_wait_while_too_much_is_pending(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    bench.queue.submit(write(0, size=2500), 1)
    passed: list[bool] = []

    async def wait_for_room() -> None:
        await bench.backlog.room()
        passed.append(True)

    nursery.start_soon(wait_for_room)
    await wait_all_tasks_blocked()
    assert passed == []
    bench.env.permits.release()
    await wait_all_tasks_blocked()
    assert passed == [True]


async def test_an_exclusive_call_runs_alone_between_commits(nursery: trio.Nursery) -> None:
    bench, done = Bench(nursery), list[int]()
    bench.queue.submit(write(0), 1)

    async def exclusive_call() -> None:
        done.append(await bench.queue.exclusively(lambda: len(bench.store.commits)))

    nursery.start_soon(exclusive_call)
    await wait_all_tasks_blocked()
    later = bench.queue.submit(write(1), 2)
    for expected in ([], [], [1]):
        assert done == expected
        bench.env.permits.release()
        await wait_all_tasks_blocked()
    await later.wait()
    assert [len(commit) for commit in bench.store.commits] == [1, 1]
    assert bench.durable == [1, 2]


@pytest.mark.parametrize("sync", [True, False])
async def test_a_failing_exclusive_call_fails_no_commit(nursery: trio.Nursery, sync: bool) -> None:
    bench = Bench(nursery, sync=sync)
    bench.env.permits = trio.Semaphore(3)

    def fail() -> None:
        raise StoreFullError("disk full")

    with pytest.raises(StoreFullError):
        await bench.queue.exclusively(fail)
    await bench.queue.submit(write(0), 1).wait()
    assert (bench.durable, bench.failures) == ([1], [])


async def test_an_exclusive_call_behind_a_failed_commit_is_not_run(nursery: trio.Nursery) -> None:
    bench = Bench(nursery)
    bench.store.failure = StoreFullError("disk full")
    bench.queue.submit(write(0), 1)
    bench.env.permits.release()
    with pytest.raises(StoreFullError):
        await bench.queue.exclusively(lambda: pytest.fail("it was run"))
    with pytest.raises(StoreFullError):
        await bench.queue.exclusively(lambda: pytest.fail("it was run"))
