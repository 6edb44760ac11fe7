"""First batches that a follower has refused, and what their producers may send when it leads later."""

from typing import Final

import pytest
import trio
from gateway_client import batch_of
from role_fakes import NODE, OTHER, TOPIC_ID, Inline, publish, replicas_over, with_epoch, with_partitions

from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.gateway.replication.replica import Replica
from odradek.partitions.config import LogConfig
from odradek.partitions.results import Appended, AppendOrigin, Duplicate, Rejected
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.wire.errors import ErrorCode

EXPIRATION_MS: Final = LogConfig().producer_id_expiration_ms


class SetClock(Inline):
    """A wall clock that can be set forward."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


class Stage:
    """A replica that follows, and leads when `lead` is called."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.env = SetClock()
        self._replicas = replicas_over(MemoryStore(MemoryMedium()), nursery, self.env)
        self._delta = publish(self._replicas, with_partitions(PartitionImage((1, 2), (1, 2), OTHER, 0, 0)))
        self.replica: Replica = self._replicas.find("t", 0)

    def lead(self) -> None:
        self._delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1, 2), NODE, 1, 1))
        publish(self._replicas, self._delta)

    def append(self, sequence: int) -> Appended | Duplicate | Rejected:
        return self.replica.append(batch(sequence, self.env.wall_ms()), AppendOrigin.CLIENT)


@pytest.fixture
def stage(nursery: trio.Nursery) -> Stage:
    return Stage(nursery)


def batch(sequence: int, timestamp_ms: int) -> memoryview:
    data = batch_of(b"v", timestamp_ms=timestamp_ms, producer_id=9, producer_epoch=0, base_sequence=sequence)
    return memoryview(bytearray(data))


async def test_a_later_batch_is_refused_until_the_refused_one_comes(stage: Stage) -> None:
    await stage.replica.ensure_open()
    stage.replica.note_refused(batch(0, 1))
    stage.lead()
    refused = stage.append(1)
    assert isinstance(refused, Rejected)
    assert refused.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(stage.append(0), Appended)
    assert isinstance(stage.append(1), Appended)


async def test_a_batch_that_the_leader_has_accepted_is_refused_no_more(stage: Stage) -> None:
    await stage.replica.ensure_open()
    old_ms = 1  # the producer's entry expires at once, as that of a backfill
    stage.replica.note_refused(batch(0, old_ms))
    assert stage.replica.follower is not None
    taken = stage.replica.take_fetched(stage.replica.follower.position, with_epoch(bytes(batch(0, old_ms)), 0))
    assert taken is not None
    assert not isinstance(taken, Rejected)
    await taken.wait()
    stage.replica.expire_producers()
    assert not stage.replica.log.producers
    stage.lead()
    assert isinstance(stage.append(1), Appended)


async def test_a_batch_that_was_refused_long_ago_does_not_count(stage: Stage) -> None:
    await stage.replica.ensure_open()
    stage.replica.note_refused(batch(0, 1))
    stage.env.ahead_ms = EXPIRATION_MS
    stage.replica.expire_producers()
    stage.lead()
    assert isinstance(stage.append(1), Appended)
