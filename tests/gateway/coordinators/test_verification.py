"""Verification that partitions are in a transaction, over logs that become available meanwhile (KIP-890)."""

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of
from gateway_transactions import Transactional

from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS
from odradek.gateway.coordinators.verification import verified
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.assignment import Assignment
from odradek.partitions.config import LogConfig
from odradek.partitions.in_sync import Membership
from odradek.partitions.leader import Leader, lead
from odradek.partitions.state import PartitionState
from odradek.partitions.transaction_guard import GuardedBatch, VerificationGuard
from odradek.wire.errors import ErrorCode

NODE, OTHER = 1, 2


class Replicated:
    """A replica whose log serves unless it has an `error`."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE):
        self.error = error
        self.role, _ = lead(PartitionState(LogConfig()), 1)

    async def ensure_open(self) -> None:
        pass

    @property
    def leader(self) -> Leader:
        if self.error:
            raise PartitionUnavailable(self.error, "t-0")
        return self.role


@pytest.mark.parametrize(
    ("replica", "error"),
    [
        (Replicated(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.KAFKA_STORAGE_ERROR),
        (None, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_a_partition_that_serves_only_after_the_verification_has_begun_is_refused(replica, error):
    replicas = {"serves": Replicated(), "later": replica}

    async def ask(names):
        assert names == ["serves"]
        replicas["later"] = Replicated()
        return dict.fromkeys(names, ErrorCode.NONE)

    outcomes = await verified(dict.fromkeys(replicas, GuardedBatch(7, 0, 0)), replicas.get, ask, adds_partition=True)
    assert outcomes["later"] is error
    assert isinstance(outcomes["serves"], VerificationGuard)


@pytest.fixture
def broker():
    with ThreadBroker(offsets_topic_num_partitions=1) as broker:
        yield broker


@pytest.fixture
def producer(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"before"))
        yield Transactional(client, "tx")


def assign(broker, topic, leader_id):
    replica = broker.broker.services.replicas.get(topic, 0)
    membership = Membership(NODE, (NODE,), (NODE,), 1)

    def change():
        epoch = replica.log.leader_epoch + 1
        replica.assign(Assignment(epoch, leader_id, leads=leader_id == NODE, membership=membership))

    broker.in_trio(change)


def test_a_first_batch_refused_before_it_was_verified_comes_before_the_ones_behind_it(broker, producer):
    assert producer.add("t", 0) == {0}
    assign(broker, "t", OTHER)
    assert producer.write("t", b"first") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assign(broker, "t", NODE)
    producer.sequences["t", 0] = 1
    assert producer.write("t", b"second") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences["t", 0] = 0
    assert producer.write("t", b"first") == producer.write("t", b"second") == 0


def test_offsets_of_a_transaction_are_committed_at_another_coordinator_if_their_partition_moves(broker, producer):
    assert producer.add_offsets() == producer.commit_offset("t", 6) == 0
    assert producer.end(True) == producer.add_offsets() == 0
    assign(broker, CONSUMER_OFFSETS, OTHER)
    assert producer.commit_offset("t", 7) == ErrorCode.NOT_COORDINATOR
