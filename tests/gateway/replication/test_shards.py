"""Coordinators' shards over replicas that are elected while they store records, or whose log fails."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest
import trio
from gateway_client import batch_of
from role_fakes import (
    NODE,
    OTHER,
    TOPIC_ID,
    HeldUp,
    Inline,
    Recorded,
    faulty_replicas,
    publish,
    replicas_over,
    with_epoch,
    with_partitions,
)
from trio.testing import wait_all_tasks_blocked

from odradek.coordinator.contract import Outcome, Reply, ShardRecord, Token
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.gateway.coordinators.runtime import RELOAD_RETRY_MS, ShardRuntime, ShardState, SteadyClock
from odradek.gateway.env.completion import Completion
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.results import AppendOrigin
from odradek.storage_backends.faulty import FaultPlan
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.wire.errors import ErrorCode, ProtocolError

T = TypeVar("T")


@pytest.fixture
def replicas(nursery: trio.Nursery) -> Replicas:
    return replicas_over(MemoryStore(MemoryMedium()), nursery)


def write(_shard: Recorded, token: Token, _now_ms: int) -> Outcome:
    return Outcome((ShardRecord(b"k", b"v"),), (Reply(token, None),))


def read(shard: Recorded, token: Token, _now_ms: int) -> Outcome:
    return Outcome((), (Reply(token, shard.count),))


# Records that are not durable yet


async def loading(replicas: Replicas, nursery: trio.Nursery) -> tuple[ShardRuntime[Recorded], MetadataDelta]:
    """A runtime that begins to load as its broker is elected, with a fetched record that is not durable yet."""
    delta = publish(replicas, with_partitions(PartitionImage((2, 1), (2, 1), OTHER, 4, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    await wait_all_tasks_blocked()
    assert replica.follower is not None
    replica.take_fetched(replica.follower.position, with_epoch(batch_of(b"one"), 4))
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2, 1), (1,), NODE, 5, 1))
    delta = publish(replicas, delta)
    runtime = ShardRuntime(replica, SteadyClock(Inline()), Recorded)

    async def load() -> None:
        with suppress(CoordinatorUnavailable):
            await runtime.load()

    nursery.start_soon(load)
    await wait_all_tasks_blocked()
    assert (replica.log.log_end_offset, replica.log.durable_end_offset) == (1, 0)
    assert runtime.state is ShardState.LOADING
    return runtime, delta


async def test_a_coordinator_also_loads_what_its_broker_was_storing_when_it_was_elected(nursery: trio.Nursery) -> None:
    """Otherwise it decides without records that are in its log (simulation, seed 120077)."""
    env = HeldUp()
    replicas, _ = faulty_replicas(nursery, env)
    runtime, _ = await loading(replicas, nursery)
    env.go.set()
    await wait_all_tasks_blocked()
    assert (runtime.state, runtime.shard.count) == (ShardState.ACTIVE, 1)


async def test_a_coordinator_loads_again_when_what_was_being_stored_is_lost(nursery: trio.Nursery) -> None:
    env = HeldUp()
    replicas, plan = faulty_replicas(nursery, env)
    runtime, _ = await loading(replicas, nursery)
    plan.mix.write_error = 1.0
    env.go.set()
    await wait_all_tasks_blocked()
    assert runtime.state is ShardState.NEW
    assert runtime.reload_at_ms is not None
    plan.mix.write_error = 0.0
    await runtime.load()
    assert (runtime.state, runtime.shard.count, runtime.reload_at_ms) == (ShardState.ACTIVE, 0, None)


async def test_a_reply_that_waits_when_the_broker_ceases_to_lead_is_not_coordinator(replicas: Replicas) -> None:
    """On which clients, and brokers that forward requests, ask the new leader; the write itself may be lost."""
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    runtime = ShardRuntime(replicas.find("t", 0), SteadyClock(Inline()), Recorded)
    await runtime.load()
    _, reply = await runtime.begin(write)
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1, 2), OTHER, 1, 1))
    publish(replicas, delta)
    with pytest.raises(CoordinatorUnavailable) as raised:
        await reply.wait()
    assert raised.value.error is ErrorCode.NOT_COORDINATOR


async def test_a_setting_that_changes_while_a_shard_loads_is_applied_to_that_shard(nursery: trio.Nursery) -> None:
    env = HeldUp()
    replicas, _ = faulty_replicas(nursery, env)
    runtime, _ = await loading(replicas, nursery)
    changed: list[Recorded] = []
    runtime.change(changed.append)
    env.go.set()
    await wait_all_tasks_blocked()
    assert runtime.state is ShardState.ACTIVE
    assert runtime.shard in changed


async def test_a_coordinator_that_is_stopped_while_it_loads_stays_stopped(nursery: trio.Nursery) -> None:
    env = HeldUp()
    replicas, plan = faulty_replicas(nursery, env)
    runtime, delta = await loading(replicas, nursery)
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2, 1), (2,), OTHER, 6, 2))
    publish(replicas, delta)
    runtime.stop()
    plan.mix.write_error = 1.0
    env.go.set()
    await wait_all_tasks_blocked()
    assert (runtime.state, runtime.reload_at_ms) == (ShardState.STOPPED, None)


async def test_a_coordinator_whose_broker_follows_when_it_has_loaded_is_not_active(nursery: trio.Nursery) -> None:
    """The metadata's shard is stopped only after its load; what it has loaded must not be published by a follower."""
    env = HeldUp()
    replicas, _ = faulty_replicas(nursery, env)
    runtime, delta = await loading(replicas, nursery)
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2, 1), (2, 1), OTHER, 6, 2))
    publish(replicas, delta)
    env.go.set()
    await wait_all_tasks_blocked()
    assert runtime.state is ShardState.STOPPED


# Records that are not committed yet


async def test_a_coordinator_acts_on_what_it_has_loaded_once_that_is_committed(replicas: Replicas) -> None:
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT)
    await replica.durable(1).wait()
    published: list[int] = []
    runtime = ShardRuntime(
        replica, SteadyClock(Inline()), Recorded, publish=lambda shard: lambda: published.append(shard.count)
    )
    await runtime.load()
    assert (runtime.state, runtime.shard.count, published) == (ShardState.ACTIVE, 1, [])
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1,), NODE, 0, 1))
    publish(replicas, delta)
    assert (replica.log.high_watermark, published) == (1, [1])


async def uncommitted(nursery: trio.Nursery) -> tuple[FaultPlan, Replica, ShardRuntime[Recorded]]:
    """A shard that has loaded a record that is durable here, but not committed."""
    replicas, plan = faulty_replicas(nursery)
    publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT)
    await replica.durable(1).wait()
    runtime = ShardRuntime(replica, SteadyClock(Inline()), Recorded, write_timeout_ms=500)
    await runtime.load()
    assert (runtime.state, runtime.shard.count, replica.log.high_watermark) == (ShardState.ACTIVE, 1, 0)
    return plan, replica, runtime


async def fail(plan: FaultPlan, replica: Replica) -> None:
    """Let a write fail that is not the shard's, such as those of the cleaner and of the expiry of producers."""
    plan.mix.write_error = 1.0
    with suppress(StoreError):
        await replica.mark_clean(0).wait()
    assert replica.state is ReplicaState.FAILED


async def test_a_reply_that_depends_on_loaded_records_is_not_sent_once_the_log_has_failed(
    nursery: trio.Nursery,
) -> None:
    plan, replica, runtime = await uncommitted(nursery)
    await fail(plan, replica)
    assert runtime.state is ShardState.NEW
    with pytest.raises(CoordinatorUnavailable):
        await runtime.call(read, reads=True)


async def test_a_reply_that_waits_while_the_log_fails_is_answered(nursery: trio.Nursery) -> None:
    plan, replica, runtime = await uncommitted(nursery)
    _, reply = await runtime.begin(read, reads=True)
    assert not reply.settled
    await fail(plan, replica)
    assert isinstance(reply.error, CoordinatorUnavailable)


async def test_a_reply_is_answered_when_a_write_that_is_not_the_shards_fails(nursery: trio.Nursery) -> None:
    replicas, plan = faulty_replicas(nursery)
    publish(replicas, with_partitions(PartitionImage((1,), (1,), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    runtime = ShardRuntime(replica, SteadyClock(Inline()), Recorded)
    await runtime.load()
    plan.mix.write_error = 1.0
    replica.append(memoryview(batch_of(b"one")), AppendOrigin.COORDINATOR)
    with trio.fail_after(5), pytest.raises(CoordinatorUnavailable):
        await runtime.call(read)
    assert (runtime.state, replica.state) == (ShardState.NEW, ReplicaState.FAILED)


async def test_a_shard_whose_log_fails_at_the_end_of_its_load_publishes_nothing(nursery: trio.Nursery) -> None:
    plan, replica, _ = await uncommitted(nursery)
    replica.append(memoryview(batch_of(b"two")), AppendOrigin.CLIENT)
    await replica.durable(2).wait()
    published: list[int] = []
    writes: list[Completion[None]] = []

    class Failing(Recorded):
        def replay(self, record: ShardRecord, offset: int, epoch: int, now_ms: int) -> None:
            super().replay(record, offset, epoch, now_ms)
            if self.count == 1:
                plan.mix.write_error = 1.0
                writes.append(replica.mark_clean(0))

    runtime = ShardRuntime(
        replica, SteadyClock(Inline()), Failing, publish=lambda shard: lambda: published.append(shard.count)
    )
    with suppress(CoordinatorUnavailable):
        await runtime.load()
    with pytest.raises(StoreError):
        await writes[0].wait()
    assert replica.state is ReplicaState.FAILED
    assert (runtime.state, published) == (ShardState.NEW, [])


async def test_a_shard_that_was_discarded_is_to_be_loaded_again_without_a_request(nursery: trio.Nursery) -> None:
    plan, replica, _ = await uncommitted(nursery)
    deadlines: list[int | None] = []
    runtime = ShardRuntime(replica, SteadyClock(Inline()), Recorded, on_deadline=deadlines.append)
    await runtime.load()
    await fail(plan, replica)
    assert runtime.reload_at_ms is not None
    assert deadlines[-1] is not None
    assert 0 <= runtime.reload_at_ms - deadlines[-1] < RELOAD_RETRY_MS


# Another epoch of the same leader


def acting(replica: Replica, act: Callable[[Recorded], None]) -> ShardRuntime[Recorded]:
    return ShardRuntime(replica, SteadyClock(Inline()), Recorded, publish=lambda shard: lambda: act(shard))


async def test_a_stopped_shard_does_not_act_on_a_decision_that_its_successor_has_carried_out(
    replicas: Replicas,
) -> None:
    """The markers would be written once more, into the producer's next transaction."""
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    acts: list[tuple[str, int]] = []
    before = acting(replica, lambda shard: acts.append(("before", shard.count)))
    after = acting(replica, lambda shard: acts.append(("after", shard.count)))
    await before.load()
    await before.begin(write)
    await replica.durable(1).wait()
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1,), (1,), NODE, 1, 1))  # the end of a reassignment
    publish(replicas, delta)
    before.stop()
    acts.clear()
    await after.load()
    await after.call(write)
    assert acts == [("after", 1), ("after", 2)]


# Loads without a request


async def test_a_request_that_waits_for_a_load_without_a_request_is_answered(nursery: trio.Nursery) -> None:
    """The first request to a new partition was cancelled, and the shard is loaded a second later."""

    class Slow(Inline):
        def __init__(self) -> None:
            super().__init__()
            self.go = trio.Event()

        async def run_blocking(self, call: Callable[[], T]) -> T:
            await self.go.wait()
            return await super().run_blocking(call)

    env = Slow()
    replicas, _ = faulty_replicas(nursery, env)
    publish(replicas, with_partitions(PartitionImage((1,), (1,), NODE, 0, 0)))
    runtime = ShardRuntime(replicas.find("t", 0), SteadyClock(Inline()), Recorded, empty=True)
    with trio.move_on_after(0.01):
        await runtime.call(read, reads=True)
    assert runtime.reload_at_ms is not None
    nursery.start_soon(runtime.load)
    await wait_all_tasks_blocked()
    answers: list[object] = []

    async def request() -> None:
        answers.append(await runtime.call(read, reads=True))

    nursery.start_soon(request)
    await wait_all_tasks_blocked()
    assert runtime.state is ShardState.LOADING
    env.go.set()
    await wait_all_tasks_blocked()
    assert answers == [0]


async def test_a_log_that_cannot_be_decoded_is_read_again_after_growing_pauses(replicas: Replicas) -> None:
    publish(replicas, with_partitions(PartitionImage((1,), (1,), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT)
    await replica.durable(1).wait()

    class Undecodable(Recorded):
        def replay(self, _record: ShardRecord, _offset: int, _epoch: int, _now_ms: int) -> None:
            raise ProtocolError("unknown")

    clock = SteadyClock(Inline())
    runtime = ShardRuntime(replica, clock, Undecodable)
    pauses: list[float] = []
    for _ in range(8):
        with pytest.raises(CoordinatorUnavailable):
            await runtime.load()
        assert runtime.reload_at_ms is not None
        pauses.append(round((runtime.reload_at_ms - clock.now_ms()) / 1000))
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


# The clock


class SetClock(Inline):
    """A wall clock that can be set."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


def test_the_coordinators_clock_follows_a_wall_clock_that_is_set_forward_but_not_back() -> None:
    """Else offsets are stored with a time so old that they expire at the next start."""
    env = SetClock()
    clock, steady = SteadyClock(env, catches_up=True), SteadyClock(env)
    before_ms = clock.now_ms()
    env.ahead_ms = 50_000
    assert clock.now_ms() - before_ms < 50_000
    env.ahead_ms = 8 * 86_400_000
    assert clock.now_ms() >= before_ms + env.ahead_ms
    assert steady.now_ms() < before_ms + 50_000
    env.ahead_ms = 0
    assert clock.now_ms() >= before_ms + 8 * 86_400_000
