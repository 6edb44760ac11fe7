"""An operation on all shards of a broker, while one of them moves to another broker."""

from types import SimpleNamespace
from uuid import UUID

import pytest
import trio
import trio.testing

from odradek.gateway.coordinators.host import Coordinator
from odradek.gateway.coordinators.runtime import ShardState
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.wire.errors import ErrorCode

TOPIC, TOPIC_ID, NODE, OTHER = "internal", UUID(int=1), 1, 2
PARTITIONS = range(3)


class FakeRuntime:
    """Answers with its partition as soon as it may."""

    def __init__(self, replica, *_, **__):
        self.replica, self.state = replica, ShardState.ACTIVE
        self.deadline_ms = self.reload_at_ms = None
        self.may_answer = trio.Event()

    async def call(self, operation, *, reads):
        await self.may_answer.wait()
        if self.state is ShardState.STOPPED:
            raise CoordinatorUnavailable(ErrorCode.NOT_COORDINATOR)
        return self.replica

    def on_time(self):
        return False

    def stop(self):
        self.state = ShardState.STOPPED
        self.may_answer.set()


class Replicas:
    node_id, may_lead = NODE, True

    async def stored(self, topic):
        return PARTITIONS

    def get(self, topic, partition):
        return partition


class Leaders:
    """Publishes which broker leads each partition, in the next leader epoch."""

    def __init__(self, coordinator):
        self.coordinator = coordinator
        self.epoch = 0

    def publish(self, leaders):
        self.epoch += 1
        parts = {n: SimpleNamespace(leader=leader, leader_epoch=self.epoch) for n, leader in leaders.items()}
        image = SimpleNamespace(topic=lambda _: SimpleNamespace(topic_id=TOPIC_ID, partitions=parts))
        topics = SimpleNamespace(deleted_topics=list, changed={TOPIC_ID: tuple(leaders)})
        self.coordinator.on_published(SimpleNamespace(topics=topics), image)


@pytest.fixture
async def coordinator(monkeypatch, nursery):
    monkeypatch.setattr("odradek.gateway.coordinators.host.ShardRuntime", FakeRuntime)
    env = SimpleNamespace(wall_ms=lambda: 0, monotonic_ms=lambda: 0)
    made = Coordinator(TOPIC, None, None, Replicas(), env, lambda: None, write_timeout_ms=0)
    leaders = Leaders(made)
    leaders.publish(dict.fromkeys(PARTITIONS, NODE))
    nursery.start_soon(made.run, trio.lowlevel.checkpoint)
    await trio.testing.wait_all_tasks_blocked()
    return made, leaders


async def test_a_shard_that_moves_away_meanwhile_is_left_out(coordinator, nursery):
    coordinator, leaders = coordinator
    found = []

    async def ask():
        found.extend(await coordinator.call_all(lambda *_: None, int))

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    leaders.publish({0: OTHER, 1: OTHER})  # the first is being asked, the second comes next
    coordinator.runtime(2).may_answer.set()
    await trio.testing.wait_all_tasks_blocked()
    assert found == [2]


async def test_a_shard_of_a_new_epoch_is_not_left_out(coordinator):
    coordinator, leaders = coordinator
    first = coordinator.runtime(0)

    async def move():
        await trio.testing.wait_all_tasks_blocked()
        leaders.publish({0: NODE})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(move)
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.call_all(lambda *_: None, int)
    assert first is not coordinator.runtime(0)
