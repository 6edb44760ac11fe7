"""The simulated world itself: time, randomness, network faults, disks, and processes that crash."""

import random
import threading
from contextlib import contextmanager

import pytest
import trio

from odradek.gateway.testing.simulation import (
    MemoryNetwork,
    NetworkFaults,
    Trace,
    World,
    deterministic_scheduling,
    run_virtually,
)
from odradek.partitions.model import LogWrite, PartitionKey, StoredBatch
from odradek.storage_backends.interface import LogPolicy, StoreError, StoreLockedError
from odradek.wire.records.builder import SimpleRecord, build_batch

KEY = PartitionKey("topic", World(0).environment("any").uuid(), 0)


def batch(offset: int) -> LogWrite:
    data = build_batch([SimpleRecord(None, b"value")], base_offset=offset)
    return LogWrite(batches=[StoredBatch(offset, offset, 0, data)])


def test_time_is_virtual_and_costs_nothing():
    async def main() -> float:
        await trio.sleep(80_000)
        return trio.current_time()

    assert run_virtually(0, main) == pytest.approx(80_000)


def order_of_tasks(seed: int) -> list[int]:
    ran: list[int] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(note, number)

    async def note(number: int) -> None:
        for _ in range(5):
            await trio.lowlevel.checkpoint()
            ran.append(number)

    run_virtually(seed, main)
    return ran


def test_a_seed_decides_the_order_of_tasks():
    assert order_of_tasks(1) == order_of_tasks(1)
    assert len({tuple(order_of_tasks(seed)) for seed in range(5)}) == 5


def test_importing_hypothesis_in_between_changes_nothing():
    before = order_of_tasks(1)
    from hypothesis.internal import entropy

    entropy.deterministic_PRNG  # noqa: B018 - the import is what counts
    with deterministic_scheduling(99):
        assert order_of_tasks(1) == before


@contextmanager
def busy_trio_in_another_thread():
    """Runs a busy scheduler, like that of a broker that other tests share."""
    began, ended = threading.Event(), threading.Event()

    async def spin() -> None:
        while not ended.is_set():
            await trio.lowlevel.checkpoint()
            began.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(spin)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert began.wait(10)
        yield
    finally:
        ended.set()
        thread.join()


def test_a_trio_in_another_thread_changes_nothing():
    before = order_of_tasks(1)
    with busy_trio_in_another_thread():
        assert [order_of_tasks(1) for _ in range(20)] == [before] * 20


def test_a_trio_without_the_private_names_is_refused(monkeypatch):
    monkeypatch.delattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING")
    with pytest.raises(AssertionError, match="_ALLOW_DETERMINISTIC_SCHEDULING"), deterministic_scheduling(0):
        pass


def test_the_digest_depends_on_time_host_and_event_in_order():
    digests: set[str] = set()
    for events in (
        [(0.0, "a", "x"), (1.0, "b", "y")],
        [(1.0, "b", "y"), (0.0, "a", "x")],
        [(0.0, "a", "x"), (2.0, "b", "y")],
        [(0.0, "a", "x"), (1.0, "a", "y")],
        [(0.0, "a", "x"), (1.0, "b", "z")],
    ):
        trace = Trace()
        for event in events:
            trace.record(*event)
        digests.add(trace.digest)
    assert len(digests) == 5


def test_environments_draw_the_same_from_the_same_seed_and_differ_by_host_and_start():
    def drawn(seed: int) -> list[str]:
        world = World(seed)
        return [str(world.environment(host).uuid()) for host in ("one", "one", "two")]

    assert drawn(1) == drawn(1)
    assert len({*drawn(1), *drawn(2)}) == 6


def test_the_wall_clock_has_its_skew():
    async def main() -> tuple[int, int]:
        env = World(0).environment("host")
        before = env.wall_ms()
        await trio.sleep(2)
        env.skew_ms = -5000
        return env.wall_ms() - before, env.monotonic_ms()

    assert run_virtually(0, main) == (2000 - 5000, 2000)


# The network


async def pair(network: MemoryNetwork, client: str = "client", server: str = "server"):
    [listener] = network.listen(server, 9)
    here = await network.dial(client, server, 9)
    return here, await listener.accept()


async def read(transport) -> bytes:
    buffer = bytearray(1000)
    return bytes(buffer[: await transport.receive_into(memoryview(buffer))])


def in_network(main, faults: NetworkFaults | None = None):
    return run_virtually(0, lambda: main(MemoryNetwork(random.Random(0), faults)))


def test_a_partition_holds_bytes_back_until_it_heals():
    async def main(network: MemoryNetwork) -> tuple[float, bytes]:
        here, there = await pair(network)
        network.partition("client", "server")
        await here.send_parts([b"late"])
        with trio.move_on_after(30) as waiting:
            await read(there)
        assert waiting.cancelled_caught
        network.heal()
        return trio.current_time(), await read(there)

    assert in_network(main) == (30, b"late")


def test_a_partition_one_way_lets_the_other_through():
    async def main(network: MemoryNetwork) -> bytes:
        here, there = await pair(network)
        network.partition("client", "server", both_ways=False)
        await there.send_parts([b"hello"])
        return await read(here)

    assert in_network(main) == b"hello"


def test_dialling_across_a_partition_times_out():
    async def main(network: MemoryNetwork) -> float:
        network.listen("server", 9)
        network.partition("client", "server")
        with pytest.raises(TimeoutError):
            await network.dial("client", "server", 9)
        return trio.current_time()

    assert in_network(main) == pytest.approx(3)


def test_a_cut_delivers_a_part_and_then_breaks_both_sides():
    async def main(network: MemoryNetwork) -> int:
        here, there = await pair(network)
        network.faults.cut = 1.0
        await here.send_parts([bytes(100)])
        with pytest.raises(ConnectionResetError):
            await here.send_parts([b"more"])
        size = len(await read(there))
        with pytest.raises(ConnectionResetError):
            await read(there)
        return size

    assert 0 < in_network(main) < 100


def test_a_reset_delivers_nothing():
    async def main(network: MemoryNetwork) -> None:
        here, there = await pair(network)
        network.faults.reset = 1.0
        await here.send_parts([bytes(100)])
        with pytest.raises(ConnectionResetError):
            await read(there)

    in_network(main)


def test_bytes_take_their_time_and_keep_their_order():
    async def main(network: MemoryNetwork) -> tuple[bytes, float]:
        here, there = await pair(network)
        for number in range(10):
            await here.send_parts([b"%d" % number])
        here.close()
        seen = b""
        while some := await read(there):
            seen += some
        return seen, trio.current_time()

    seen, now_s = in_network(main, NetworkFaults(delay_ms=(10, 500)))
    assert seen == b"0123456789"
    assert now_s > 0.1


def test_a_killed_process_says_goodbye_and_a_machine_without_power_does_not():
    async def main(network: MemoryNetwork) -> None:
        here, _ = await pair(network)
        network.crash("server", silently=False)
        assert await read(here) == b""
        here, _ = await pair(network)
        network.crash("server", silently=True)
        with trio.move_on_after(1000) as waiting:
            await read(here)
        assert waiting.cancelled_caught
        await here.send_parts([b"into the void"])
        network.listen("server", 9)
        await here.send_parts([b"still there?"])  # its answer resets the connection
        with pytest.raises(ConnectionResetError):
            await here.send_parts([b"more"])

    in_network(main)


# Disks and processes


def stored_after_crash(*, power_cut: bool, seed: int) -> int:
    async def main() -> int:
        world = World(seed)
        env = world.environment("host")
        part = env.open_store("memory://").open(KEY, LogPolicy())
        part.commit([batch(0)], sync=True)
        part.commit([batch(1)], sync=False)
        part.commit([batch(2)], sync=False)
        world.crash(env, power_cut=power_cut)
        with pytest.raises(StoreError):
            part.commit([batch(3)], sync=True)
        again = world.environment("host").open_store("memory://").open(KEY, LogPolicy())
        return again.load().log_end_offset

    return run_virtually(seed, main)


def test_a_kill_keeps_every_commit():
    assert {stored_after_crash(power_cut=False, seed=seed) for seed in range(5)} == {3}


def test_a_power_cut_keeps_synced_commits_and_some_of_the_others():
    assert {stored_after_crash(power_cut=True, seed=seed) for seed in range(30)} == {1, 2, 3}


def commit_at_crash(seed: int) -> int:
    """The number of commits on the disk after a crash during the first one."""

    async def main() -> int:
        world = World(seed)
        world.disk("host").pace.busy_ms = (10, 10)
        env = world.environment("host")
        part = env.open_store("memory://").open(KEY, LogPolicy())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, env, part)
            await trio.sleep(0.005)
            world.crash(env, power_cut=True)
        return world.environment("host").open_store("memory://").open(KEY, LogPolicy()).load().log_end_offset

    async def fails(env, part) -> None:
        with pytest.raises(StoreError):
            await env.run_blocking(lambda: part.commit([batch(0)], sync=True))

    return run_virtually(seed, main)


def test_a_commit_under_way_at_the_crash_is_kept_or_lost_by_chance():
    assert {commit_at_crash(seed) for seed in range(20)} == {0, 1}


def test_a_disk_is_open_once():
    world = World(0)
    world.environment("host").open_store("memory://")
    with pytest.raises(StoreLockedError):
        world.environment("host").open_store("memory://")
    world.environment("other").open_store("memory://")


def test_what_a_process_has_in_memory_is_checked_before_it_crashes():
    """The last response of an active controller may already tell others what its memory alone is known to hold."""

    async def main() -> list[bool]:
        world = World(0)
        env = world.environment("host")
        steps: list[bool] = []
        world.on_step = lambda _host: steps.append(env.dead)
        world.crash(env, power_cut=False)
        return steps

    assert run_virtually(0, main) == [False, True]


def test_a_dead_process_reaches_nobody():
    async def main() -> None:
        world = World(0)
        env = world.environment("host")
        world.network.listen("server", 9)
        world.crash(env, power_cut=False)
        with pytest.raises(OSError, match="crashed"):
            await env.dial("server", 9)
        with pytest.raises(OSError, match="crashed"):
            await env.listen("host", 9)
        with pytest.raises(StoreError, match="crashed"):
            await env.run_blocking(lambda: None)

    run_virtually(0, main)
