"""A request that names many unopened logs opens several at a time, and each partition has its own error."""

import threading

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, fetch_request, produce_many

from odradek.gateway.handling.opening import OPENED_AT_ONCE
from odradek.storage_backends.faulty import FaultyStore
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

ALL = range(3 * OPENED_AT_ONCE)
BROKEN = 5
WAIT_LIMIT_S = 30


def list_offsets(client):
    parts = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in ALL)
    [topic] = client.call(ListOffsetsRequest(topics=(ListOffsetsTopic(name="t", partitions=parts),))).topics
    return {part.partition_index: part.error_code for part in topic.partitions}


def fetch(client):
    request = fetch_request("t", [(index, 0) for index in ALL], max_wait_ms=0)
    [topic] = client.call(request).responses
    return {part.partition_index: part.error_code for part in topic.partitions}


def offset_for_leader_epoch(client):
    parts = tuple(OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in ALL)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=(OffsetForLeaderTopic(topic="t", partitions=parts),))
    [topic] = client.call(request).topics
    return {part.partition: part.error_code for part in topic.partitions}


def produce(client):
    response = client.call(produce_many([("t", index, batch_of(b"value")) for index in ALL]))
    return {part.index: part.error_code for topic in response.responses for part in topic.partition_responses}


every_request = pytest.mark.parametrize("ask", [list_offsets, fetch, offset_for_leader_epoch, produce])


@pytest.fixture
def client(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t", partitions=len(ALL))
        yield client


@every_request
def test_so_many_are_opened_at_once_and_no_more(client, monkeypatch, ask):
    really, together = FaultyStore.open, threading.Barrier(OPENED_AT_ONCE)
    opening, most, mutex = 0, 0, threading.Lock()

    def slowly(self, key, policy):
        nonlocal opening, most
        with mutex:
            opening += 1
            most = max(most, opening)
        together.wait(WAIT_LIMIT_S)  # raises unless enough threads arrive
        try:
            return really(self, key, policy)
        finally:
            with mutex:
                opening -= 1

    monkeypatch.setattr(FaultyStore, "open", slowly)
    assert ask(client) == dict.fromkeys(ALL, 0)
    assert most == OPENED_AT_ONCE


@every_request
def test_one_that_cannot_be_opened_is_answered_so_and_no_other(client, monkeypatch, ask):
    really = FaultyStore.open

    def partly(self, key, policy):
        if key.index == BROKEN:
            raise StoreError("it is broken")
        return really(self, key, policy)

    with monkeypatch.context() as patched:
        patched.setattr(FaultyStore, "open", partly)
        assert ask(client) == dict.fromkeys(ALL, 0) | {BROKEN: ErrorCode.KAFKA_STORAGE_ERROR}
    assert ask(client) == dict.fromkeys(ALL, 0)
