"""ImportBatches: what is answered is in the log, and committed, whatever happens to the log during the import."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest
import trio
from role_fakes import NODE, OTHER, TOPIC_ID, faulty_replicas, publish, with_partitions
from trio.testing import wait_all_tasks_blocked

from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.gateway.env.completion import Completion
from odradek.gateway.handlers import import_batches
from odradek.gateway.replication.replica import ReplicaState
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.results import EpochEnd
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.testing.batches import make_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.import_batches import (
    ImportBatchesRequest,
    ImportBatchesResponse,
    ImportPartition,
    ImportPartitionResult,
    ImportTopic,
)


class Context:
    """A request's context; `between` is called between the parts of an import."""

    def __init__(self, replicas: Replicas, between: Callable[[], Awaitable[None]] | None = None) -> None:
        async def reserve(_producer_id: int) -> None:
            pass

        config = SimpleNamespace(import_far_enable=False)
        producer_ids = SimpleNamespace(reserve=reserve)
        self.services = SimpleNamespace(replicas=replicas, producer_ids=producer_ids, config=config)
        self._between = between

    async def take_turns(self) -> None:
        await trio.lowlevel.checkpoint()

    async def checkpoint(self) -> None:
        if self._between is not None:
            await self._between()
        await trio.lowlevel.checkpoint()


async def begin(context: Context, *offsets: int) -> Completion[ImportBatchesResponse]:
    records = memoryview(bytearray(b"".join([bytes(make_batch(offset).data) for offset in offsets])))
    topic = ImportTopic(name="t", partitions=(ImportPartition(index=0, records=records),))
    return await import_batches.handle(context, ImportBatchesRequest(topics=(topic,), timeout_ms=30_000))  # type: ignore[arg-type]


def result(response: ImportBatchesResponse) -> ImportPartitionResult:
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("how", ["the log fails and is opened again", "another broker leads in between"])
async def test_an_import_in_parts_that_were_not_all_kept_is_refused(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("odradek.partitions.imports.MAX_BATCHES", 1)
    replicas, plan = faulty_replicas(nursery)
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1,), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()

    async def fails() -> None:
        plan.mix.write_error = 1.0
        with pytest.raises(StoreError):
            await replica.durable(1).wait()
        assert replica.state is ReplicaState.FAILED
        plan.mix.write_error = 0.0
        await replica.ensure_open()  # by another request

    async def moves() -> None:
        nonlocal delta
        delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (2,), OTHER, 1, 1))  # an unclean election
        delta = publish(replicas, delta)
        await wait_all_tasks_blocked()
        assert replica.follower is not None
        assert await replica.truncate(replica.follower.position, EpochEnd(-1, 0))
        delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1,), NODE, 2, 2))
        delta = publish(replicas, delta)

    reply = await begin(Context(replicas, fails if how.startswith("the log") else moves), 0, 1)
    answer = result(await reply.wait())
    assert (answer.error_code, replica.log.log_end_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


async def test_the_refusal_of_what_is_in_the_log_already_is_sent_once_that_is_committed(nursery: trio.Nursery) -> None:
    """The client continues behind it, and never sends it again: another leader might not have it."""
    replicas, _ = faulty_replicas(nursery)
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    first = await begin(Context(replicas), 0)
    await replica.durable(1).wait()
    again = await begin(Context(replicas), 0)  # the retry after a lost answer
    assert (first.settled, again.settled, replica.log.high_watermark) == (False, False, 0)
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1,), NODE, 0, 1))
    publish(replicas, delta)
    codes = [result(await reply.wait()).error_code for reply in (first, again)]
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]
