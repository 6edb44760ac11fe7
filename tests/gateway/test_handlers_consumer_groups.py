"""Consumer groups over the wire (KIP-848), where they need a whole broker: metadata, settings, restarts, the log."""

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient
from gateway_groups import committed, find, offset_commit

from odradek.gateway.config import ConfigError, load_config
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.stored.framing import decode_key, group_key_types

GROUP_RESOURCE = 32
AT_ONCE = {"group_consumer_assignment_interval_ms": 0}


def beat(client, member, epoch, group="g", **fields):
    """One heartbeat, repeated while the group is loading, as clients do."""
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
    while (answer := client.call(request)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    return answer


def join(client, member, group="g", topics=("t",), **fields):
    wanted = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": topics, "topic_partitions": ()}
    answer = beat(client, member, 0, group, **{**wanted, **fields})
    assert answer.error_code == 0, answer
    return answer


def held(answer):
    return sorted(index for topic in answer.assignment.topic_partitions for index in topic.partitions)


def described(client, group="g"):
    return client.call(ConsumerGroupDescribeRequest(group_ids=(group,))).groups[0]


def test_partitions_and_topics_are_noticed_with_the_next_heartbeat(broker_log):
    with ThreadBroker(**AT_ONCE) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        joined = join(client, "a", topics=("t", "later"))
        assert held(joined) == [0]
        wanted = (CreatePartitionsTopic(name="t", count=3, assignments=None),)
        client.call(CreatePartitionsRequest(topics=wanted, timeout_ms=9000))
        grown = beat(client, "a", joined.member_epoch)
        assert (grown.member_epoch, held(grown)) == (joined.member_epoch + 1, [0, 1, 2])
        client.create_topic("later")
        assert held(beat(client, "a", grown.member_epoch)) == [0, 0, 1, 2]
        # A topic that is unrelated to the group changes nothing.
        client.create_topic("other")
        quiet = beat(client, "a", grown.member_epoch + 1)
        assert (quiet.member_epoch, quiet.assignment) == (grown.member_epoch + 1, None)


def test_an_expression_is_resolved_by_the_broker_itself(broker_log):
    with ThreadBroker(**AT_ONCE) as broker, RawClient(broker.address) as client:
        for name in ("in-1", "in-2", "out"):
            client.create_topic(name)
        assert find(client, "g") == 0
        epoch = join(client, "a", topics=None, subscribed_topic_regex="in-[0-9]").member_epoch
        while (answer := beat(client, "a", epoch)).assignment is None:
            pass
        assert held(answer) == [0, 0]
        assert described(client).members[0].subscribed_topic_regex == "in-[0-9]"


def test_a_group_and_its_members_outlive_a_restart(tmp_path, broker_log):
    with ThreadBroker(f"lmdb://{tmp_path}/data", **AT_ONCE) as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t", partitions=2)
            assert find(client, "g") == 0
            epoch = join(client, "a").member_epoch
            join(client, "b", group="other", topics=None, subscribed_topic_regex="t")
            commit = offset_commit("g", 7, generation_id_or_member_epoch=epoch, member_id="a")
            assert client.call(commit).topics[0].partitions[0].error_code == 0
            before = described(client)
        broker.stop()
        broker.start()
        with RawClient(broker.address) as client:
            goes_on = beat(client, "a", epoch)
            assert (goes_on.error_code, goes_on.member_epoch, goes_on.assignment) == (0, epoch, None)
            assert described(client) == before
            assert committed(client, "g") == {("t", 0): 7}
            while (answer := client.call(ListGroupsRequest())).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            listed = {group.group_id: group.group_type for group in answer.groups}
            assert listed == {"g": "consumer", "other": "consumer"}
            assert beat(client, "a", -1).error_code == 0
            assert described(client).group_state == "Empty"


def test_a_group_may_have_settings_of_its_own(broker_log):
    with ThreadBroker(**AT_ONCE) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        epoch = join(client, "a").member_epoch
        assert beat(client, "a", epoch).heartbeat_interval_ms == 5000
        config = AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0, value="7000")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name="g", configs=(config,))
        altered = client.call(IncrementalAlterConfigsRequest(resources=(resource,)))
        assert altered.responses[0].error_code == 0, altered
        assert beat(client, "a", epoch).heartbeat_interval_ms == 7000
        assert join(client, "b", group="other").heartbeat_interval_ms == 5000


def test_without_the_protocol_there_are_no_such_groups(broker_log):
    with (
        ThreadBroker(group_coordinator_rebalance_protocols="classic") as broker,
        RawClient(broker.address) as client,
    ):
        assert find(client, "g") == 0
        assert beat(client, "a", 0).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert described(client).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_feature_is_finalized(client):
    answer = client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features}
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert supported["group.version"] == (0, 1)
    assert finalized["group.version"] == 1


def test_the_log_holds_kafkas_records_and_loses_them_with_the_group(broker_log):
    with ThreadBroker(offsets_topic_num_partitions=1, **AT_ONCE) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        join(client, "a")
        assert _kinds(client) == [5, 3, 7, 6, 8]
        beat(client, "a", -1)
        last = {record.key: record.value for record in _records(client)}
        kinds = sorted(int.from_bytes(key[:2], "big") for key, value in last.items() if value is not None)
        assert kinds == [3, 6]
        for key in last:
            assert decode_key(key, group_key_types()).group_id == "g"


def _records(client):
    return [record for _, records in client.fetch_all("__consumer_offsets") for record in records]


def _kinds(client):
    return [int.from_bytes(record.key[:2], "big") for record in _records(client)]


@pytest.mark.parametrize("name", ["uniform,sticky", "com.example.Mine"])
def test_only_assignors_that_are_there_can_be_asked_for(name):
    with pytest.raises(ConfigError, match=r"group\.consumer\.assignors"):
        load_config(overrides={"group.consumer.assignors": name}, environ={})


def test_kafkas_class_names_stand_for_its_assignors():
    package = "org.apache.kafka.coordinator.group.assignor"
    overrides = {"group.consumer.assignors": f"{package}.RangeAssignor,uniform"}
    config = load_config(overrides=overrides, environ={})
    assert config.group.consumer.group_consumer_assignors == ("range", "uniform")


JOIN = {"group_id": "words", "member_id": "m", "rebalance_timeout_ms": 1000, "topic_partitions": ()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"server_assignor": "x"}, "ServerAssignor x is not supported. Supported assignors: uniform, range."),
        ({"member_epoch": 3}, "Group words not found."),
    ],
    ids=str,
)
def test_heartbeats_are_refused_in_kafkas_words(client, changed, message):
    """Compared with the texts in Kafka 4.3.1's GroupCoordinatorService; tools look for them."""
    for group in ("", "words"):
        client.call(FindCoordinatorRequest(coordinator_keys=(group,)))
    fields = {**JOIN, "member_epoch": 0, "subscribed_topic_names": ("t",), **changed}
    assert client.call(ConsumerGroupHeartbeatRequest(**fields)).error_message == message


def test_a_classic_group_that_cannot_be_upgraded_is_refused_in_kafkas_words(client):
    asked = JoinGroupRequest(
        group_id="other-protocol",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="connect",
        protocols=(JoinGroupRequestProtocol(name="default", metadata=b""),),
    )
    client.call(FindCoordinatorRequest(coordinator_keys=("other-protocol",)))
    assert client.call(asked, 3).error_code == 0
    fields = {**JOIN, "group_id": "other-protocol", "member_epoch": 0, "subscribed_topic_names": ("t",)}
    assert client.call(ConsumerGroupHeartbeatRequest(**fields)).error_message == (
        "Cannot upgrade classic group other-protocol to consumer group because the group does not use the consumer "
        "embedded protocol."
    )
