"""KAFKA-20716: an unclean election loses a transaction's marker, and its coordinator does not notice.

The records stay undecided for readers. The transaction is found as one that hangs, and an administrator ends it.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from plant import inside, plant
from sim_apart import BROKERS, STATE_TOPIC, TOPIC, Cluster, Producer, with_cluster

from odradek.gateway.cli.client import Target, topic_partition
from odradek.gateway.cli.hanging import OpenTransaction, find_hanging
from odradek.partitions.producers import Producers
from odradek.partitions.transaction_guard import VerificationGuard
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

NAME = "teller"


class Answered:
    """An admin client for `odradek transactions find-hanging` that returns recorded answers of brokers."""

    def __init__(
        self, leaders: dict[int, int], producers: dict[Any, Any], listed: dict[int, Any], described: dict[str, Any]
    ) -> None:
        self._leaders, self._producers, self._listed, self._described = leaders, producers, listed, described

    @classmethod
    async def by(cls, cluster: Cluster) -> "Answered":
        leaders = {index: cluster.part(TOPIC, index).leader for index in (0, 1)}
        producers = {topic_partition(TOPIC, index): await open_producers(cluster, index) for index in leaders}
        alive = [node for node in BROKERS if cluster.hosts[node].alive]
        listed = {node: (await cluster.ask_node(node, ListTransactionsRequest())).transaction_states for node in alive}
        coordinator = cluster.part(STATE_TOPIC).leader
        answer = await cluster.ask_node(coordinator, DescribeTransactionsRequest(transactional_ids=(NAME,)))
        [found] = answer.transaction_states
        taking_part = {topic_partition(each.topic, index) for each in found.topics for index in each.partitions}
        described = SimpleNamespace(producer_id=found.producer_id, topic_partitions=taking_part)
        return cls(leaders, producers, listed, {NAME: described})

    def describe_topics(self) -> list[Any]:
        parts = [{"partition_index": index, "leader_id": leader} for index, leader in self._leaders.items()]
        return [{"name": TOPIC, "partitions": parts}]

    def describe_producers(self, partitions: Sequence[Any]) -> dict[Any, Any]:
        return {place: SimpleNamespace(active_producers=self._producers[place]) for place in partitions}

    def list_transactions(self, producer_id_filters: Sequence[int]) -> dict[int, Any]:
        return {
            node: [each for each in found if each.producer_id in producer_id_filters]
            for node, found in self._listed.items()
        }

    def describe_transactions(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: self._described[name] for name in names}


async def open_producers(cluster: Cluster, index: int) -> list[Any]:
    """The partition leader's answer to DescribeProducers, with kafka-python's names."""
    asked = DescribeProducersRequest(topics=(TopicRequest(name=TOPIC, partition_indexes=(index,)),))
    [found] = (await cluster.ask_node(cluster.part(TOPIC, index).leader, asked)).topics[0].partitions
    return [
        SimpleNamespace(
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=each.coordinator_epoch,
            current_transaction_start_offset=each.current_txn_start_offset,
            last_timestamp=each.last_timestamp,
        )
        for each in found.active_producers
    ]


async def hanging(cluster: Cluster) -> list[tuple[Any, OpenTransaction]]:
    return find_hanging(Target(""), await Answered.by(cluster), [], 2**60)


async def abort(cluster: Cluster, index: int, found: OpenTransaction) -> ErrorCode:
    """Send what `odradek transactions abort` sends to the partition's leader."""
    place = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=(index,))
    marker = WritableTxnMarker(
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=(place,),
        coordinator_epoch=max(found.coordinator_epoch, 0),
    )
    answer = await cluster.ask_node(cluster.part(TOPIC, index).leader, WriteTxnMarkersRequest(markers=(marker,)))
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


async def lose_marker(cluster: Cluster, version: int, *, committed: bool) -> Producer:
    """End a transaction in two partitions, and make broker 2, which lacks the marker, the leader of the first."""
    await cluster.create([(1, 2), (3, 2)], min_insync_replicas="1", unclean_leader_election_enable="true")
    producer = Producer(cluster, NAME, version)
    await producer.take_over()
    assert await producer.write(b"first", 0) == await producer.write(b"second", 1) == 0
    await cluster.in_sync(TOPIC, STATE_TOPIC)
    await cluster.crash(2)
    await cluster.isr_is(1)
    await cluster.isr_is(1, 3, topic=STATE_TOPIC)
    assert await producer.end(committed=committed) == 0
    await cluster.reads([b"first"] if committed else [], 0)
    await cluster.reads([b"second"] if committed else [], 1)
    assert await hanging(cluster) == []
    await cluster.crash(1)
    await cluster.until(lambda: cluster.part().leader == -1)
    await cluster.start(2)
    await cluster.until(lambda: cluster.part().leader == 2)
    return producer


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_without_its_marker_hangs_until_an_administrator_ends_it(version: int, committed: bool) -> None:
    async def play(cluster: Cluster) -> None:
        producer = await lose_marker(cluster, version, committed=committed)
        await cluster.reads([], 0, undecided=True)
        assert await cluster.read(0, committed=False) == ([b"first"], True)
        await cluster.reads([b"second"] if committed else [], 1)

        [(place, found)] = await hanging(cluster)
        assert place == topic_partition(TOPIC, 0)
        assert found == OpenTransaction(producer.id, 0, -1, 0, found.last_write_ms)
        assert await abort(cluster, 0, found) == 0
        assert await hanging(cluster) == []
        await cluster.reads([], 0)

        assert await producer.write(b"next", 0) == 0
        assert await producer.end(committed=True) == 0
        await cluster.reads([b"next"], 0)
        await cluster.start(1)
        await cluster.isr_is(1, 2)
        await cluster.crash(2)
        await cluster.until(lambda: cluster.part().leader == 1)
        await cluster.reads([b"next"], 0)

    with_cluster(version, play)


def with_lost_marker(version: int) -> list[Any]:
    """The errors for a producer that continues after an abort whose marker was lost, then the committed values."""
    seen: list[Any] = []

    async def play(cluster: Cluster) -> None:
        producer = await lose_marker(cluster, version, committed=False)
        seen.append(await producer.write(b"next", 0))
        seen.append(await producer.end(committed=not seen[0]))
        await cluster.until_decided(0)
        assert await producer.write(b"last", 0) == await producer.end(committed=True) == 0
        await cluster.until_decided(0)
        seen.append((await cluster.read(0))[0])

    with_cluster(version, play)
    return seen


def test_the_next_transaction_takes_no_records_in_of_one_whose_marker_was_lost() -> None:
    """The next transaction must be aborted; its marker ends both, and the producer continues."""
    assert with_lost_marker(2) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE, [b"last"]]


def test_version_1_cannot_tell_the_next_transaction_from_the_one_whose_marker_was_lost() -> None:
    """As in Kafka: both have the same producer epoch. An administrator has to end the first one before."""
    assert with_lost_marker(1) == [ErrorCode.NONE, ErrorCode.NONE, [b"first", b"next", b"last"]]


def test_records_that_were_aborted_are_found_in_the_next_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    check_verified = inside(Producers, "check_verified")

    def lets_in(self: Producers, producer_id: int, producer_epoch: int, guard: VerificationGuard | None) -> Any:
        refusal = check_verified(self, producer_id, producer_epoch, guard)
        return None if refusal is not None and refusal.error is ErrorCode.TRANSACTION_ABORTABLE else refusal

    plant(monkeypatch, Producers, "check_verified", lets_in)
    assert with_lost_marker(2) == [ErrorCode.NONE, ErrorCode.NONE, [b"first", b"next", b"last"]]
