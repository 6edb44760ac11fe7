"""Transactions whose coordinator, or whose partition's leader, fails between their beginning and their end.

The next coordinator would not have a transaction that had begun only in memory (redpanda 6018); and a late EndTxn must
not end the transaction after its own (Jepsen on Bufstream 0.1.0).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from plant import inside, plant
from sim_apart import BROKERS, STATE_TOPIC, Cluster, Producer, with_cluster

from odradek.coordinator.contract import Outcome, ShardRecord
from odradek.coordinator.transactions.records import decode_id, decode_transaction, transaction_record
from odradek.coordinator.transactions.state import TransactionState
from odradek.gateway.coordinators import runtime
from odradek.wire.errors import ErrorCode


async def begun(cluster: Cluster, version: int) -> Producer:
    """A producer that has ended a transaction, and has written a record to each of two partitions in the next one."""
    await cluster.create([(1, 2, 3), (2, 3, 1)])
    producer = Producer(cluster, "teller", version)
    await producer.take_over()
    await cluster.in_sync("t", STATE_TOPIC)
    assert await producer.write(b"earlier") == 0
    assert await producer.end(committed=True) == 0
    assert await producer.write(b"first", 0) == await producer.write(b"second", 1) == 0
    return producer


async def lose_leader(cluster: Cluster, topic: str) -> None:
    """Cut the power of the leader of the topic's first partition, and wait for another leader."""
    leader = cluster.part(topic).leader
    await cluster.crash(leader)
    await cluster.until(lambda: cluster.part(topic).leader in set(BROKERS) - {leader}, "no other leader")


@pytest.mark.parametrize("topic", ["t", STATE_TOPIC])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_is_known_to_the_next_leader_and_coordinator(version: int, committed: bool, topic: str) -> None:
    async def play(cluster: Cluster) -> None:
        producer = await begun(cluster, version)
        await lose_leader(cluster, topic)
        await cluster.reads([b"earlier"], undecided=True)
        assert await producer.write(b"third", 0) == 0
        assert await producer.end(committed=committed) == 0
        await cluster.reads([b"earlier", b"first", b"third"] if committed else [b"earlier"], 0)
        await cluster.reads([b"second"] if committed else [], 1)
        assert await producer.write(b"next", 1) == 0
        assert await producer.end(committed=True) == 0
        await cluster.reads([b"second", b"next"] if committed else [b"next"], 1)

    with_cluster(version, play)


def begun_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Plant a bug: the coordinator's log gets the state before an open transaction, not the open transaction."""
    batches_of = inside(runtime, "_batches_of")

    def before(record: ShardRecord) -> ShardRecord:
        if not record.key or record.value is None:  # a record of the metadata log
            return record
        name = decode_id(record.key)
        assert name is not None
        now = decode_transaction(name, record.value)
        if now.state is not TransactionState.ONGOING:
            return record
        return transaction_record(replace(now, state=TransactionState.EMPTY, partitions={}, start_ms=-1), 2)

    def without_it(outcome: Outcome, *rest: Any) -> Any:
        records: Sequence[ShardRecord] = [before(each) for each in outcome.records]
        return batches_of(replace(outcome, records=records), *rest)

    plant(patch, runtime, "_batches_of", without_it)


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_has_begun_in_memory_alone_is_found(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_in_memory(monkeypatch)

    async def play(cluster: Cluster) -> None:
        producer = await begun(cluster, version)
        await lose_leader(cluster, STATE_TOPIC)
        assert await producer.end(committed=True) == ErrorCode.INVALID_TXN_STATE

    with_cluster(version, play)


def test_a_late_end_does_not_end_the_next_transaction_at_a_new_coordinator() -> None:
    async def play(cluster: Cluster) -> None:
        producer = await begun(cluster, 2)
        late = producer.ending(committed=True)
        opposite = producer.ending(committed=False)
        assert await producer.end(committed=True) == 0
        assert await producer.write(b"open", 0) == 0
        await lose_leader(cluster, STATE_TOPIC)
        for request in (late, opposite):
            assert (await producer.send_end(request)).error_code == ErrorCode.PRODUCER_FENCED
        await cluster.reads([b"earlier", b"first"], undecided=True)
        assert await producer.write(b"more", 0) == 0
        assert await producer.end(committed=False) == 0
        await cluster.reads([b"earlier", b"first"], 0)

    with_cluster(2, play)


def test_a_late_end_of_version_1_is_fenced_once_the_producer_has_taken_up_its_next_epoch() -> None:
    """A producer does that if it does not know how a transaction ended. Within an epoch only version 2 can fence."""

    async def play(cluster: Cluster) -> None:
        producer = await begun(cluster, 1)
        late = producer.ending(committed=True)
        assert await producer.end(committed=True) == 0
        await producer.take_over()
        assert await producer.write(b"open", 0) == 0
        await lose_leader(cluster, STATE_TOPIC)
        assert (await producer.send_end(late)).error_code == ErrorCode.PRODUCER_FENCED
        await cluster.reads([b"earlier", b"first"], undecided=True)
        assert await producer.end(committed=False) == 0
        await cluster.reads([b"earlier", b"first"], 0)

    with_cluster(3, play)
