"""Administration of one broker: changes persist, sizes are real, and what does not apply is refused or says so."""

import pytest
from gateway_brokers import ProcessBroker, ThreadBroker, logged
from gateway_client import RawClient, batch_of

from odradek.wire.api_keys import ADVERTISED, OWN_VERSIONS
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from odradek.wire.messages.alter_configs import AlterableConfig as LegacyConfig
from odradek.wire.messages.alter_configs import AlterConfigsRequest
from odradek.wire.messages.alter_configs import AlterConfigsResource as LegacyResource
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest
from odradek.wire.messages.describe_producers import TopicRequest as ProducersOf
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.list_config_resources import ListConfigResourcesRequest
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
USER = (EntityData(entity_type="user", entity_name="ann"),)


def set_quota(client, value=1000.0, key="producer_byte_rate"):
    entry = AlterClientQuotasRequestEntryData(entity=USER, ops=(OpData(key=key, value=value),))
    return client.call(AlterClientQuotasRequest(entries=(entry,))).entries[0].error_code


def quotas(client):
    entries = client.call(DescribeClientQuotasRequest()).entries
    return {value.key: value.value for each in entries for value in each.values}


def set_user(client, name="ann"):
    wanted = ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 32)
    return client.call(AlterUserScramCredentialsRequest(upsertions=(wanted,))).results[0].error_code


def users(client):
    return [each.user for each in client.call(DescribeUserScramCredentialsRequest(users=None)).results]


def set_config(client, kind, name, key, value):
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,))
    return client.call(IncrementalAlterConfigsRequest(resources=(resource,))).responses[0].error_code


def config(client, kind, name, key):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=(key,))
    (result,) = client.call(DescribeConfigsRequest(resources=(resource,))).results
    return result.configs[0].value


def resources(client, *kinds):
    answer = client.call(ListConfigResourcesRequest(resource_types=kinds))
    assert answer.error_code == 0
    return {(each.resource_type, each.resource_name) for each in answer.config_resources}


def log_dir(client, topics=None):
    (result,) = client.call(DescribeLogDirsRequest(topics=topics)).results
    assert result.error_code == 0
    sizes = {
        (each.name, part.partition_index): part.partition_size for each in result.topics for part in each.partitions
    }
    return result, sizes


def test_what_was_stored_outlives_kill_9(tmp_path):
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            assert set_quota(client) == 0
            assert set_user(client) == 0
            assert set_config(client, GROUP, "g", "consumer.session.timeout.ms", "50000") == 0
            assert set_config(client, CLIENT_METRICS, "m", "interval.ms", "60000") == 0
        broker.kill()
        broker.start()
        with RawClient(broker.address) as client:
            assert quotas(client) == {"producer_byte_rate": 1000.0}
            assert users(client) == ["ann"]
            assert config(client, GROUP, "g", "consumer.session.timeout.ms") == "50000"
            assert config(client, CLIENT_METRICS, "m", "interval.ms") == "60000"
            assert resources(client, GROUP, CLIENT_METRICS) == {(GROUP, "g"), (CLIENT_METRICS, "m")}


def test_sizes_are_those_of_the_batches(tmp_path, broker_log):
    with ThreadBroker(f"lmdb://{tmp_path}/data") as broker, RawClient(broker.address) as client:
        client.create_topic("t", partitions=2)
        batch = batch_of(b"x" * 1000)
        for _ in range(3):
            client.produce("t", batch)
        found, sizes = log_dir(client)
        assert (sizes["t", 0], sizes["t", 1]) == (3 * len(batch), 0)
        assert found.log_dir == f"{tmp_path}/data"
        assert 0 < found.usable_bytes <= found.total_bytes
        asked = (
            DescribableLogDirTopic(topic="t", partitions=(1, 0, 1, 7)),
            DescribableLogDirTopic(topic="gone", partitions=(0,)),
        )
        assert log_dir(client, asked)[1] == {("t", 1): 0, ("t", 0): 3 * len(batch)}
        assert log_dir(client, ())[1] == {}
        broker.stop()
        broker.start()
        with RawClient(broker.address) as again:
            assert log_dir(again, asked)[1]["t", 0] == 3 * len(batch), "without having been opened"


def test_a_log_that_cannot_be_read_is_left_out(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))
        broker.env.faults.write_full = broker.env.faults.read_error = 1.0
        assert client.produce("t", batch_of(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert ("t", 0) not in log_dir(client)[1]
        assert logged(broker_log, 30, "cannot describe a log", "t-0")
        broker.env.faults.write_full = broker.env.faults.read_error = 0.0
        assert client.produce("t", batch_of(b"y")).error_code == 0
        assert log_dir(client)[1]["t", 0] > 0


def test_a_store_in_memory_reports_no_space(client, topic):
    found, _ = log_dir(client)
    assert (found.total_bytes, found.usable_bytes) == (-1, -1)
    wanted = (AlterReplicaLogDirTopic(name=topic, partitions=(0, 1)),)
    dirs = [AlterReplicaLogDir(path=path, topics=wanted) for path in ("/elsewhere", found.log_dir)]
    for count, codes in ((1, [57, 57]), (2, [0, 3])):
        (result,) = client.call(AlterReplicaLogDirsRequest(dirs=tuple(dirs[:count]))).results
        assert [part.error_code for part in result.partitions] == codes


def test_what_has_configs_is_listed(client, topic):
    assert set_config(client, GROUP, "listed", "consumer.session.timeout.ms", "50000") == 0
    found = resources(client)
    assert {(TOPIC, topic), (BROKER, "1"), (LOGGER, "1"), (GROUP, "listed")} <= found
    assert resources(client, GROUP, GROUP) == {(GROUP, "listed")}
    refused = client.call(ListConfigResourcesRequest(resource_types=(GROUP, 3)))
    assert (refused.error_code, refused.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())
    assert client.call(ListConfigResourcesRequest(), 0).config_resources == ()


def test_what_is_named_twice_is_described_once(client, topic):
    named = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=(key,))
        for name, key in ((topic, "segment.ms"), ("gone", "segment.ms"), (topic, "retention.ms"))
    ]
    found = client.call(DescribeConfigsRequest(resources=tuple(named))).results
    assert [(each.resource_name, [entry.name for entry in each.configs]) for each in found] == [
        (topic, ["segment.ms"]),
        ("gone", []),
    ]
    asked = [
        ProducersOf(name=name, partition_indexes=indexes)
        for name, indexes in ((topic, (1, 0, 1)), ("gone", (0,)), (topic, (0, 2)))
    ]
    found = client.call(DescribeProducersRequest(topics=tuple(asked))).topics
    assert [(each.name, [part.partition_index for part in each.partitions]) for each in found] == [
        (topic, [1, 0, 2]),
        ("gone", [0]),
    ]
    twice = ("b", "a", "b")
    assert [each.group_id for each in client.call(DescribeGroupsRequest(groups=twice)).groups] == ["b", "a"]
    assert [each.group_id for each in client.call(ConsumerGroupDescribeRequest(group_ids=twice)).groups] == ["b", "a"]
    states = client.call(DescribeTransactionsRequest(transactional_ids=twice)).transaction_states
    assert [each.transactional_id for each in states] == ["b", "a"]


def test_changes_fail_with_kafka_storage_error_while_the_metadata_log_does(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        broker.env.faults.write_full = 1.0
        legacy = LegacyResource(
            resource_type=GROUP,
            resource_name="g",
            configs=(LegacyConfig(name="consumer.session.timeout.ms", value="50000"),),
        )
        features = (FeatureUpdateKey(feature="metadata.version", max_version_level=30),)
        assert {
            set_quota(client),
            set_user(client),
            set_config(client, GROUP, "g", "consumer.session.timeout.ms", "50000"),
            client.call(AlterConfigsRequest(resources=(legacy,))).responses[0].error_code,
            client.call(UpdateFeaturesRequest(feature_updates=features)).error_code,
        } == {ErrorCode.KAFKA_STORAGE_ERROR}
        broker.env.faults.write_full = 0
        assert (quotas(client), users(client), resources(client, GROUP)) == ({}, [], set())
        assert set_quota(client) == set_user(client) == 0


def test_features_in_force_are_shown_with_an_epoch_that_grows(client):
    def shown():
        answer = client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
        return answer.finalized_features_epoch, {
            each.name: each.max_version_level for each in answer.finalized_features
        }

    epoch, before = shown()
    updates = (FeatureUpdateKey(feature="metadata.version", max_version_level=30),)
    for dry in (True, False):
        assert client.call(UpdateFeaturesRequest(feature_updates=updates, validate_only=dry)).error_code == 0
        assert shown() == (epoch, before) if dry else shown()[0] > epoch
    assert shown()[1] == before


def quorum_request():
    part = DescribeQuorumRequestPartitionData(partition_index=0)
    asked = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=(part,))
    return DescribeQuorumRequest(topics=(asked,))


def test_the_quorum_has_no_leader_while_its_log_does_not_serve(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        broker.env.faults.write_full = broker.env.faults.read_error = 1.0
        assert set_quota(client) == ErrorCode.KAFKA_STORAGE_ERROR
        answer = client.call(quorum_request())
        assert (answer.error_code, answer.topics) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, ())
        broker.env.faults.write_full = broker.env.faults.read_error = 0
        assert set_quota(client) == 0
        assert client.call(quorum_request()).error_code == 0


def test_the_quorum_is_this_broker(shared_broker, client):
    answer = client.call(quorum_request())
    (found,) = answer.topics[0].partitions
    (voter,) = found.current_voters
    assert (found.leader_id, voter.replica_id, voter.log_end_offset) == (1, 1, found.high_watermark)
    (node,) = answer.nodes
    assert (node.listeners[0].host, node.listeners[0].port) == shared_broker.address
    set_quota(client, 77.0)
    (later,) = client.call(quorum_request()).topics[0].partitions
    assert later.high_watermark > found.high_watermark


def test_no_election_changes_anything(client, topic):
    asked = (TopicPartitions(topic=topic, partitions=(0,)),)
    (result,) = client.call(ElectLeadersRequest(topic_partitions=asked)).replica_election_results
    assert result.partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (SaslHandshakeRequest(mechanism="PLAIN"), ErrorCode.ILLEGAL_SASL_STATE),
        (SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), ErrorCode.ILLEGAL_SASL_STATE),
        (CreateDelegationTokenRequest(), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (RenewDelegationTokenRequest(hmac=b"h"), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ExpireDelegationTokenRequest(hmac=b"h"), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (DescribeDelegationTokenRequest(owners=None), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (DescribeAclsRequest(operation=1, permission_type=1), ErrorCode.SECURITY_DISABLED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_security_requests_answer_that_it_is_disabled(client, request_of, code):
    for _ in range(2):
        assert client.call(request_of).error_code == code, "and the connection goes on"


def test_every_acl_is_answered(client):
    assert [each.error_code for each in client.call(CreateAclsRequest(creations=(AclCreation(),) * 3)).results] == [
        54
    ] * 3
    deleted = client.call(DeleteAclsRequest(filters=(DeleteAclsFilter(),) * 2)).filter_results
    assert [each.error_code for each in deleted] == [54] * 2


def test_at_least_fifty_of_kafkas_apis_are_served():
    assert len(ADVERTISED.keys() - OWN_VERSIONS.keys()) >= 50
