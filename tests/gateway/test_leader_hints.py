"""Current leaders in responses with leadership errors (KIP-951)."""

from uuid import UUID

import pytest
from gateway_client import fetch_request

from odradek.coordinator.metadata.image.image import (
    BrokerImage,
    ListenerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from odradek.gateway.handling.leader_hints import fetch_with_leaders, produce_with_leaders
from odradek.gateway.replication.assignment import Assignment
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import fetch, produce

WRONG, OLD, GONE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def broker(number, *, fenced=False, rack=None):
    listeners = {"PLAINTEXT": ListenerImage("PLAINTEXT", f"host-{number}", 9000 + number)}
    return BrokerImage(number, number, UUID(int=number), listeners, rack=rack, fenced=fenced)


def led_by(leader, epoch):
    return PartitionImage((1, 2, 3), (1, 2, 3), leader, epoch, 0)


TOPIC = TopicImage("t", UUID(int=9), False, (led_by(1, 4), led_by(2, 5), led_by(3, 6), led_by(-1, 7)))
IMAGE = MetadataImage(
    brokers={1: broker(1), 2: broker(2, rack="r"), 3: broker(3, fenced=True)}, topics_by_name={"t": TOPIC}
)


def fetched(version, *errors, listener="PLAINTEXT", topic="t"):
    parts = tuple([fetch.PartitionData(partition_index=n, error_code=error) for n, error in enumerate(errors)])
    response = fetch.FetchResponse(responses=(fetch.FetchableTopicResponse(topic=topic, partitions=parts),))
    return seen(fetch_with_leaders(response, version, IMAGE, listener), response.responses[0].partitions)


def produced(version, *errors, listener="PLAINTEXT", topic="t"):
    parts = tuple([produce.PartitionProduceResponse(index=n, error_code=error) for n, error in enumerate(errors)])
    response = produce.ProduceResponse(responses=(produce.TopicProduceResponse(name=topic, partition_responses=parts),))
    return seen(produce_with_leaders(response, version, IMAGE, listener), parts)


def seen(response, before):
    [topic] = response.responses
    parts = topic.partitions if hasattr(topic, "partitions") else topic.partition_responses
    assert [part.error_code for part in parts] == [part.error_code for part in before]
    leaders = [(part.current_leader.leader_id, part.current_leader.leader_epoch) for part in parts]
    return leaders, [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]


NO_LEADER = (-1, -1)
FIRST, SECOND = (1, "host-1", 9001, None), (2, "host-2", 9002, "r")


@pytest.mark.parametrize("answered", [pytest.param(fetched, id="fetch"), pytest.param(produced, id="produce")])
def test_not_leader_or_follower_comes_with_the_leader(answered):
    assert answered(16, WRONG, 0) == ([(1, 4), NO_LEADER], [FIRST])
    assert answered(16, 0, WRONG) == ([NO_LEADER, (2, 5)], [SECOND])
    assert answered(16, WRONG, WRONG) == ([(1, 4), (2, 5)], [FIRST, SECOND])
    assert answered(16, GONE, ErrorCode.UNKNOWN_LEADER_EPOCH) == ([NO_LEADER, NO_LEADER], [])


@pytest.mark.parametrize("answered", [pytest.param(fetched, id="fetch"), pytest.param(produced, id="produce")])
def test_a_leader_that_cannot_be_reached_has_no_endpoint(answered):
    assert answered(16, 0, 0, WRONG) == ([NO_LEADER, NO_LEADER, (3, 6)], []), "it is fenced"
    assert answered(16, 0, 0, 0, WRONG) == ([NO_LEADER, NO_LEADER, NO_LEADER, (-1, 7)], []), "there is none"
    assert answered(16, WRONG, listener="OTHER") == ([(1, 4)], [])
    assert answered(16, WRONG, topic="deleted") == ([NO_LEADER], [])


def test_an_old_epoch_comes_with_the_leader_in_fetch_only():
    assert fetched(16, OLD) == ([(1, 4)], [FIRST])
    assert produced(12, OLD) == ([NO_LEADER], [])


@pytest.mark.parametrize(("answered", "first"), [(fetched, 16), (produced, 10)])
def test_the_first_version_that_tells(answered, first):
    assert answered(first - 1, WRONG) == ([NO_LEADER], [])
    assert answered(first, WRONG) == ([(1, 4)], [FIRST])


@pytest.mark.parametrize("version", [12, 16, 18])
def test_a_fetch_with_an_old_epoch_gets_the_leader(shared_broker, client, topic, version):
    replica = shared_broker.broker.services.replicas.get(topic, 0)
    client.fetch(topic)
    shared_broker.in_trio(lambda: replica.assign(Assignment(3, 1, leads=True)))
    request = fetch_request(topic, [(0, 0)], current_leader_epoch=1)
    topic_id = shared_broker.broker.services.metadata.image.topic(topic).topic_id
    by_id = fetch.FetchTopic(topic=topic, topic_id=topic_id, partitions=request.topics[0].partitions)
    answer = client.call(fetch.FetchRequest(topics=(by_id,)), version)
    [part] = answer.responses[0].partitions
    assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH
    host, port = shared_broker.address
    nodes = [(node.node_id, node.host, node.port) for node in answer.node_endpoints]
    assert (part.current_leader.leader_id, nodes) == ((1, [(1, host, port)]) if version >= 16 else (-1, []))
