"""Leaders with records that they fetched as followers, epochs of one leader after another, and the end."""

import pytest
import trio
from gateway_client import batch_of
from role_fakes import (
    NODE,
    OTHER,
    TOPIC_ID,
    HeldUp,
    faulty_replicas,
    fetches,
    publish,
    replicas_over,
    with_epoch,
    with_partitions,
)
from trio.testing import wait_all_tasks_blocked

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.coordinator.metadata.image.replay import replay
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.replica import ReplicaState
from odradek.partitions.model import PartitionKey
from odradek.partitions.results import AppendOrigin, Rejected
from odradek.storage_backends.interface import LogPolicy, PartitionStore, StoreError
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.wire.errors import ErrorCode
from odradek.wire.stored.metadata_records import ConfigRecord


async def test_what_followers_had_of_lost_records_does_not_commit_those_written_in_their_place(
    nursery: trio.Nursery,
) -> None:
    """A record would be acknowledged that only the leader has: broker 3 has another one at its offset."""
    env = HeldUp()
    replicas, plan = faulty_replicas(nursery, env)
    delta = publish(replicas, with_partitions(PartitionImage((2, 1, 3), (2, 1, 3), OTHER, 4, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    assert replica.follower is not None
    replica.take_fetched(replica.follower.position, with_epoch(batch_of(b"of the last leader"), 4))
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2, 1, 3), (1, 3), NODE, 5, 1))
    publish(replicas, delta)
    assert fetches(replica, 3, 1, epoch=5, last=4).diverging is None, "broker 3 has the record, durably"
    plan.mix.write_error = 1.0
    env.go.set()
    await wait_all_tasks_blocked()
    assert replica.state is ReplicaState.FAILED
    plan.mix.write_error = 0.0
    await replica.ensure_open()
    result = replica.append(memoryview(batch_of(b"new")), AppendOrigin.CLIENT, all_in_sync=True)
    assert not isinstance(result, Rejected)
    await replica.durable(1).wait()
    assert not replica.committed(1).settled
    assert fetches(replica, 3, 1, epoch=5, last=4).diverging is not None
    fetches(replica, 3, 1, epoch=5, last=5)
    assert replica.committed(1).settled


async def test_waits_for_a_commit_end_when_the_same_leader_is_alone_in_a_new_epoch(nursery: trio.Nursery) -> None:
    """The end of a reassignment, which removes the other replicas, raises the leader epoch."""
    replicas, _ = faulty_replicas(nursery)
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT)
    await replica.durable(1).wait()
    committed = replica.committed(1)
    assert not committed.settled
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1,), (1,), NODE, 1, 1))
    publish(replicas, delta)
    assert committed.settled


async def test_a_replica_that_moved_to_other_brokers_does_not_look_like_a_deleted_topic(nursery: trio.Nursery) -> None:
    """The relay of an outbox sets records of deleted topics aside for good."""
    for is_deleted, error in (
        (False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        replicas, _ = faulty_replicas(nursery)
        delta = publish(replicas, with_partitions(PartitionImage((1,), (1,), NODE, 0, 0)))
        replica = replicas.find("t", 0)
        await replica.ensure_open()
        if is_deleted:
            delta.topics.delete(TOPIC_ID)
        else:
            delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2,), (2,), OTHER, 1, 1))
        publish(replicas, delta)
        with pytest.raises(PartitionUnavailable) as refused:
            replica.append(memoryview(batch_of(b"late")), AppendOrigin.CLIENT)
        assert refused.value.error is error


class FailsToSync(MemoryStore):
    """A store whose logs fail to flush when they are closed."""

    def open(self, key: PartitionKey, policy: LogPolicy) -> PartitionStore:
        part = super().open(key, policy)

        def close() -> None:
            raise StoreError("the last sync failed")

        part.close = close  # type: ignore[method-assign]
        return part


async def test_a_log_that_cannot_be_closed_is_reported(nursery: trio.Nursery) -> None:
    """Then the shutdown must not count as clean: what was written without a flush may be lost."""
    for store, are_closed in ((MemoryStore(MemoryMedium()), True), (FailsToSync(MemoryMedium()), False)):
        replicas = replicas_over(store, nursery)
        publish(replicas, with_partitions(PartitionImage((1,), (1,), NODE, 0, 0)))
        await replicas.find("t", 0).ensure_open()
        assert await replicas.close() is are_closed


async def test_a_smaller_isr_does_not_commit_with_the_min_insync_replicas_from_before(nursery: trio.Nursery) -> None:
    """Both may come in one delta. The controller counts the removed replica as an eligible leader, by the new value."""
    replicas = replicas_over(MemoryStore(MemoryMedium()), nursery)
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT, all_in_sync=True)
    await replica.durable(1).wait()
    setting = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="min.insync.replicas", value="2")
    replay(delta, setting, delta.offset + 1, 0)
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1,), NODE, 0, 1, elr=(2,)))
    publish(replicas, delta)
    assert replica.log.high_watermark == 0
