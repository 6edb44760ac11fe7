"""DeleteRecords waits for the other replicas, as in Kafka: each of them may be elected."""

from types import SimpleNamespace
from uuid import UUID

import pytest
import trio
import trio.testing
from gateway_client import batch_of
from role_fakes import NODE, OTHER, TOPIC_ID, faulty_replicas, fetches, publish, with_partitions

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import BrokerImage, PartitionImage
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.handlers import delete_records
from odradek.gateway.replication.leading import MAX_AWAITED_DELETIONS
from odradek.gateway.replication.replica import Replica
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.results import AppendOrigin
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


class Context:
    def __init__(self, replicas: Replicas) -> None:
        image = SimpleNamespace(topic=lambda _name: None)
        self.services = SimpleNamespace(replicas=replicas, metadata=SimpleNamespace(image=image))

    async def take_turns(self) -> None:
        await trio.lowlevel.checkpoint()


async def deletion(replicas: Replicas, offset: int, timeout_ms: int) -> DeleteRecordsPartitionResult:
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(part,)),), timeout_ms=timeout_ms)
    reply = await delete_records.handle(Context(replicas), request)  # type: ignore[arg-type]
    return (await reply.wait()).topics[0].partitions[0]


async def with_record(replicas: Replicas) -> tuple[Replica, MetadataDelta]:
    """A replica with one committed record; broker 2 is in sync with it, and broker 3 fenced."""
    delta = with_partitions(PartitionImage((1, 2, 3), (1, 2), NODE, 0, 0))
    for broker_id in (1, 2, 3):
        delta.brokers.set(broker_id, BrokerImage(broker_id, 0, UUID(int=broker_id), {}, fenced=broker_id == 3))
    delta = publish(replicas, delta)
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    replica.append(memoryview(batch_of(b"secret")), AppendOrigin.CLIENT)
    await replica.durable(1).wait()
    fetches(replica, 2, 1, epoch=0, last=0)
    assert replica.log.high_watermark == 1
    return replica, delta


async def test_the_response_waits_until_the_replicas_on_active_brokers_have_the_log_start(
    nursery: trio.Nursery,
) -> None:
    replicas, _ = faulty_replicas(nursery)
    replica, _ = await with_record(replicas)
    answers: list[DeleteRecordsPartitionResult] = []

    async def delete() -> None:
        answers.append(await deletion(replicas, -1, 30_000))

    nursery.start_soon(delete)
    while replica.log.log_start_offset == 0:
        await trio.lowlevel.checkpoint()
    fetches(replica, 2, 1, epoch=0, last=0, start=0)
    assert answers == []
    fetches(replica, 2, 1, epoch=0, last=0, start=1)
    while not answers:
        await trio.lowlevel.checkpoint()
    assert (answers[0].error_code, answers[0].low_watermark) == (ErrorCode.NONE, 1)
    again = await deletion(replicas, 1, 30_000)
    assert (again.error_code, again.low_watermark) == (ErrorCode.NONE, 1)


async def test_the_response_is_a_time_out_if_a_replica_does_not_follow(nursery: trio.Nursery) -> None:
    replicas, _ = faulty_replicas(nursery)
    replica, _ = await with_record(replicas)
    answer = await deletion(replicas, 1, 20)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert replica.log.log_start_offset == 1


async def test_the_wait_ends_when_another_broker_leads(nursery: trio.Nursery) -> None:
    replicas, _ = faulty_replicas(nursery)
    replica, delta = await with_record(replicas)
    answers: list[DeleteRecordsPartitionResult] = []

    async def delete() -> None:
        answers.append(await deletion(replicas, 1, 30_000))

    nursery.start_soon(delete)
    while replica.log.log_start_offset == 0:
        await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked()
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2, 3), (1, 2), OTHER, 1, 1))
    publish(replicas, delta)
    while not answers:
        await trio.lowlevel.checkpoint()
    assert (answers[0].error_code, answers[0].low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_waits_end_when_another_broker_is_elected_while_the_log_has_failed(nursery: trio.Nursery) -> None:
    replicas, plan = faulty_replicas(nursery)
    replica, delta = await with_record(replicas)
    assert await replica.move_log_start(1) is None
    deleted = replica.deleted(1)
    plan.mix.write_error = 1.0
    with pytest.raises(StoreError):
        await replica.mark_clean(0).wait()
    assert not deleted.settled
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2, 3), (1, 2), OTHER, 1, 1))
    publish(replicas, delta)
    assert deleted.error is not None


async def test_the_number_of_waits_is_limited(nursery: trio.Nursery) -> None:
    replicas, _ = faulty_replicas(nursery)
    replica, _ = await with_record(replicas)
    waits = [replica.deleted(offset) for offset in range(1, MAX_AWAITED_DELETIONS + 3)]
    assert [each.settled for each in waits] == [True, True, *[False] * MAX_AWAITED_DELETIONS]
    assert isinstance(waits[0].error, PartitionUnavailable)
    assert waits[0].error.error is ErrorCode.REQUEST_TIMED_OUT
