"""Requests of other nodes to the active controller, on its controller listener, and requests that a broker forwards."""

from uuid import UUID

import pytest
from gateway_brokers import ThreadBroker, free_port, internal_errors
from gateway_client import RawClient

from odradek.gateway.handlers import delete_topics
from odradek.gateway.metadata.active import ActiveController, QuorumLeadership
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.frames import LENGTH_BYTES
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.wire.messages.alter_partition import AlterPartitionRequest
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.envelope import EnvelopeRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

LOCALHOST = bytes([127, 0, 0, 1])
FEATURES = (
    Feature(name="group.version", max_supported_version=1),
    Feature(name="metadata.version", min_supported_version=7, max_supported_version=30),
    Feature(name="transaction.version", max_supported_version=2),
)


class Combined(ThreadBroker):
    """A node that is the only voter of its quorum, with a controller listener."""

    def __init__(self, **config):
        self.controller = ("127.0.0.1", free_port())
        super().__init__(
            controller_quorum_voters=f"1@127.0.0.1:{self.controller[1]}", process_roles="broker,controller", **config
        )
        self._config["listeners"] = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller[1]}"


class Elsewhere(QuorumLeadership):
    """The leadership of a node whose active controller is set by the test."""

    active = None
    is_active = False


@pytest.fixture
def active():
    with Combined() as broker:
        yield broker


@pytest.fixture
def nodes(active):
    """A client of the controller listener."""
    with RawClient(active.controller) as client:
        yield client


@pytest.fixture
def other(active):
    """A broker with separate metadata whose active controller is `active`."""
    with ThreadBroker(request_timeout_ms="2000") as broker:
        leadership = broker.broker.services.leadership
        leadership.__class__ = Elsewhere
        leadership.active = ActiveController(1, active.controller)
        leadership.is_active = False
        yield broker


def registration(number: int, cluster_id: str) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=number,
        cluster_id=cluster_id,
        incarnation_id=UUID(int=number),
        listeners=(Listener(name="PLAINTEXT", host=f"host-{number}", port=9000 + number),),
        features=FEATURES,
        rack=None,
    )


def described(client: RawClient, **options):
    return client.call(DescribeClusterRequest(**options))


def topic(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=(CreatableTopic(name=name, num_partitions=1, replication_factor=1),))


def enveloped(request, version: int, **fields) -> EnvelopeRequest:
    data = encode_request(request, version, 77, "client")[LENGTH_BYTES:]
    return EnvelopeRequest(request_data=data, client_host_address=LOCALHOST, **fields)


def test_a_broker_registers_and_serves_when_it_has_caught_up(active, nodes):
    with RawClient(active.address) as client:
        cluster_id = described(client).cluster_id
        answer = nodes.call(registration(2, cluster_id), 4)
        assert answer.error_code == 0
        seen = {each.broker_id: each.is_fenced for each in described(client, include_fenced_brokers=True).brokers}
        assert seen == {1: False, 2: True}
        assert [each.broker_id for each in described(client).brokers] == [1]
        early = BrokerHeartbeatRequest(broker_id=2, broker_epoch=answer.broker_epoch, current_metadata_offset=0)
        assert nodes.call(early, 1).is_fenced
        caught_up = BrokerHeartbeatRequest(
            broker_id=2, broker_epoch=answer.broker_epoch, current_metadata_offset=answer.broker_epoch
        )
        assert not nodes.call(caught_up, 1).is_fenced
        assert {each.node_id: (each.host, each.port) for each in client.call(MetadataRequest()).brokers} == {
            1: active.address,
            2: ("host-2", 9002),
        }


def test_what_is_wrong_with_a_registration_is_its_error(active, nodes):
    assert nodes.call(registration(2, "other"), 4).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    stale = BrokerHeartbeatRequest(broker_id=9, broker_epoch=1)
    assert nodes.call(stale, 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    proposal = AlterPartitionRequest(broker_id=9, broker_epoch=1)
    assert nodes.call(proposal, 3).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_brokers_take_blocks_of_producer_ids(active, nodes):
    with RawClient(active.address) as client:
        epoch = nodes.call(registration(2, described(client).cluster_id), 4).broker_epoch
        first = nodes.call(AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch), 0)
        second = nodes.call(AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch), 0)
        own = client.call(InitProducerIdRequest(transactional_id=None)).producer_id
    blocks = {range(each.producer_id_start, each.producer_id_start + each.producer_id_len) for each in (first, second)}
    assert len(blocks) == 2
    assert not any(own in block for block in blocks)


def test_a_node_that_is_not_the_active_controller_answers_not_controller(active, nodes):
    active.broker.services.leadership.__class__ = Elsewhere
    refused = [
        nodes.call(registration(2, "x"), 4),
        nodes.call(BrokerHeartbeatRequest(broker_id=2), 1),
        nodes.call(AllocateProducerIdsRequest(broker_id=2), 0),
        nodes.call(AlterPartitionRequest(broker_id=2), 3),
        nodes.call(enveloped(topic("t"), 7), 0),
    ]
    assert [each.error_code for each in refused] == [ErrorCode.NOT_CONTROLLER] * 5


def test_an_election_that_is_refused_has_an_error_for_each_partition(active, nodes):
    active.broker.services.leadership.__class__ = Elsewhere
    named = ElectLeadersRequest(topic_partitions=(TopicPartitions(topic="t", partitions=(0, 3)),))
    for version in (0, 1, 2):
        answer = nodes.call(named, version)
        [found] = answer.replica_election_results
        assert answer.error_code == (ErrorCode.NOT_CONTROLLER if version else 0)
        assert found.topic == "t"
        assert [(each.partition_id, each.error_code) for each in found.partition_result] == [
            (0, ErrorCode.NOT_CONTROLLER),
            (3, ErrorCode.NOT_CONTROLLER),
        ]
        assert nodes.call(ElectLeadersRequest(topic_partitions=None), version).replica_election_results == ()


def test_endpoint_types_that_are_not_served_are_refused(active, nodes):
    with RawClient(active.address) as client:
        for peer, own, other_type in ((client, 1, 2), (nodes, 2, 1)):
            codes = [
                peer.call(DescribeClusterRequest(endpoint_type=each)).error_code for each in (own, other_type, 0, 3)
            ]
            unsupported = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            assert codes == [0, ErrorCode.MISMATCHED_ENDPOINT_TYPE, unsupported, unsupported]
        assert client.call(DescribeClusterRequest(), 0).error_code == 0
        assert nodes.call(DescribeClusterRequest(), 0).error_code == ErrorCode.INVALID_REQUEST


def test_an_envelope_is_answered_as_what_is_in_it(active, nodes):
    answer = nodes.call(enveloped(topic("t"), 7), 0)
    assert answer.error_code == 0
    correlation_id, response = decode_response(ApiKey.CREATE_TOPICS, 7, answer.response_data)
    assert correlation_id == 77
    assert [(each.name, each.error_code) for each in response.topics] == [("t", 0)]


@pytest.mark.parametrize(
    "wrong",
    [
        EnvelopeRequest(request_data=b"x", client_host_address=LOCALHOST),
        EnvelopeRequest(request_data=b"", client_host_address=LOCALHOST),
        enveloped(AllocateProducerIdsRequest(), 0),  # not a request of clients
        EnvelopeRequest(request_data=encode_request(topic("t"), 7, 1, "c")[LENGTH_BYTES:], client_host_address=b"xx"),
    ],
)
def test_what_is_no_request_of_a_client_is_refused(nodes, wrong):
    assert nodes.call(wrong, 0).error_code == ErrorCode.INVALID_REQUEST


@pytest.fixture
def defect(monkeypatch):
    async def fails(_ctx, _request):
        raise ZeroDivisionError

    monkeypatch.setattr(delete_topics, "handle", fails)


def test_a_defect_concerns_one_forwarded_request(nodes, broker_log, defect):
    assert nodes.call(enveloped(DeleteTopicsRequest(topic_names=("t",)), 5), 0).error_code == -1
    assert nodes.call(enveloped(topic("t"), 7), 0).error_code == 0
    assert ["ZeroDivisionError" in each for each in internal_errors(broker_log.records)] == [True]


def test_a_client_whose_forwarded_request_meets_a_defect_is_disconnected(other, broker_log, defect):
    with RawClient(other.address) as client, pytest.raises(EOFError):
        client.call(DeleteTopicsRequest(topic_names=("t",)), 5)
    assert len(internal_errors(broker_log.records)) == 1, "it is not sent again"


def test_a_broker_sends_on_what_changes_metadata(active, other):
    with RawClient(other.address) as client, RawClient(active.address) as at_controller:
        client.create_topic("sent-on")
        assert len(at_controller.call(MetadataRequest(topics=None)).topics) == 1
        assert client.call(MetadataRequest(topics=None)).topics == ()  # its own metadata is another cluster's
        [again] = client.call(topic("sent-on")).topics
        assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        [deleted] = client.call(DeleteTopicsRequest(topic_names=("sent-on",)), 5).responses
        assert deleted.error_code == 0


def test_producer_ids_and_topics_on_demand_come_from_the_active_controller(active, other):
    with RawClient(other.address) as client, RawClient(active.address) as at_controller:
        named = MetadataRequest(topics=(MetadataRequestTopic(name="wanted"),), allow_auto_topic_creation=True)
        client.call(named)
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)))
        names = {each.name for each in at_controller.call(MetadataRequest(topics=None)).topics}
        assert names == {"wanted", "__consumer_offsets"}
        # The controller does not have this broker's registration: the node id is the same, the broker epoch is not.
        assert client.call(InitProducerIdRequest(transactional_id=None)).error_code in (
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        )


def test_without_an_active_controller_clients_get_an_error_and_are_served_again_later(active, other):
    leadership = other.broker.services.leadership
    leadership.active = None
    with RawClient(other.address) as client:
        [refused] = client.call(topic("t")).topics
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
        other.in_trio(lambda: leadership.__setattr__("active", ActiveController(1, active.controller)))
        [created] = client.call(topic("t")).topics
        assert created.error_code == 0


def test_without_an_active_controller_nothing_is_answered_from_an_old_image(active, other):
    with RawClient(other.address) as client:
        other.in_trio(lambda: other.broker.services.leadership.__setattr__("is_active", True))
        client.create_topic("t")
        partition = ReassignablePartition(partition_index=0, replicas=(1,))
        assign = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=(partition,)),))
        assert client.call(assign, 1).error_code == ErrorCode.NONE
        leadership = other.broker.services.leadership
        other.in_trio(lambda: (leadership.__setattr__("is_active", False), leadership.__setattr__("active", None)))
        assert client.call(assign, 1).error_code == ErrorCode.NOT_CONTROLLER
        elect = ElectLeadersRequest(topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),))
        assert client.call(elect, 2).error_code == ErrorCode.NOT_CONTROLLER
