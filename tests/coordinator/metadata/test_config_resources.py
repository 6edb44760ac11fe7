"""Configs of groups and client metrics subscriptions: which are accepted, and how they are described."""

import pytest
from cluster_world import ClusterWorld
from metadata_shards import ShardUnderTest

from odradek.coordinator.configs.definition import ConfigSource, ResourceType
from odradek.coordinator.configs.operations import AlterOperation
from odradek.coordinator.metadata.controller.alter_configs import alter_configs, incremental_alter_configs
from odradek.coordinator.metadata.controller.replication_settings import has_min_insync
from odradek.coordinator.metadata.describe_configs import describe_configs
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_configs as legacy
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

METRICS, GROUP, BROKER, TOPIC = (
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)
SET, DELETE, APPEND = 0, 1, 2


def alter(shard: ShardUnderTest, kind: int, name: str, key: str, value: str | None, operation: int = SET) -> int:
    config = AlterableConfig(name=key, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    (answer,) = shard.run(incremental_alter_configs, request).responses
    return answer.error_code


def described(shard: ShardUnderTest, kind: int, name: str):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    (result,) = describe_configs(shard.shard.decision_context(0), request).results
    return result.error_code, {each.name: (each.value, each.config_source) for each in result.configs}


def test_a_subscription_comes_is_described_and_goes():
    shard = ShardUnderTest()
    for key, value in (("interval.ms", "60000"), ("metrics", "a.,b."), ("match", "client_id=x.*")):
        assert alter(shard, METRICS, "s", key, value) == 0
    ours = ConfigSource.CLIENT_METRICS_CONFIG
    set_ = {"interval.ms": ("60000", ours), "metrics": ("a.,b.", ours), "match": ("client_id=x.*", ours)}
    assert described(shard, METRICS, "s") == (0, set_)
    default = ConfigSource.DEFAULT_CONFIG
    none_set = {"interval.ms": ("300000", default), "metrics": ("", default), "match": ("", default)}
    assert described(shard, METRICS, "another") == (0, none_set)
    assert shard.replayed().configs == shard.image.configs
    for key in set_:
        assert alter(shard, METRICS, "s", key, None, DELETE) == 0
    assert (METRICS, "s") not in shard.image.configs


@pytest.mark.parametrize(
    ("name", "key", "value", "code"),
    [
        ("", "interval.ms", "60000", ErrorCode.INVALID_REQUEST),
        ("s", "no.such", "1", ErrorCode.INVALID_REQUEST),
        ("s", "interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("s", "interval.ms", "100", ErrorCode.NONE),
        ("s", "interval.ms", "3600000", ErrorCode.NONE),
        ("s", "interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("s", "interval.ms", "soon", ErrorCode.INVALID_CONFIG),
        ("s", "match", "client_id", ErrorCode.INVALID_CONFIG),
        ("s", "match", "client_id=", ErrorCode.INVALID_CONFIG),
        ("s", "match", "client_id=a=b", ErrorCode.INVALID_CONFIG),
        ("s", "match", "client_id=[", ErrorCode.INVALID_CONFIG),
        ("s", "match", "client_id=a{4294967296}", ErrorCode.INVALID_CONFIG),
        ("s", "match", f"client_id={'(' * 3000}{')' * 3000}", ErrorCode.INVALID_CONFIG),
        ("s", "match", "nobody=x", ErrorCode.INVALID_CONFIG),
        ("s", "match", "client_id=a,client_source_port=9.*", ErrorCode.NONE),
    ],
)
def test_subscriptions_are_checked(name, key, value, code):
    shard = ShardUnderTest()
    assert alter(shard, METRICS, name, key, value) == code
    assert bool(shard.image.configs_of(METRICS, name)) == (code is ErrorCode.NONE)


def test_nothing_is_appended_to_a_subscription():
    assert alter(ShardUnderTest(), METRICS, "s", "metrics", "a.", APPEND) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("streams.num.standby.replicas", "2", ErrorCode.NONE),
        ("streams.num.standby.replicas", "3", ErrorCode.INVALID_CONFIG),
        ("consumer.session.timeout.ms", "44999", ErrorCode.INVALID_CONFIG),
        ("share.delivery.count.limit", "11", ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_groups_configs_keep_to_the_brokers_bounds(key, value, code):
    assert alter(ShardUnderTest(), GROUP, "g", key, value) == code


def test_a_session_outlasts_a_heartbeat():
    bounds = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "7000"}
    shard = ShardUnderTest({**bounds, "group.consumer.heartbeat.interval.ms": "5000"})
    assert alter(shard, GROUP, "g", "consumer.session.timeout.ms", "5000") == ErrorCode.INVALID_CONFIG
    assert alter(shard, GROUP, "g", "consumer.session.timeout.ms", "5001") == 0
    assert alter(shard, GROUP, "g", "consumer.heartbeat.interval.ms", "5001") == ErrorCode.INVALID_CONFIG


def test_a_default_without_a_broker_config_is_a_synonym_of_its_own():
    shard = ShardUnderTest()
    assert alter(shard, GROUP, "g", "share.isolation.level", "read_committed") == 0
    _, configs = described(shard, GROUP, "g")
    assert configs["share.isolation.level"] == ("read_committed", ConfigSource.GROUP_CONFIG)


@pytest.mark.parametrize("broker", ["", "1"])
@pytest.mark.parametrize(
    "key", ["super.users", "listener.name.out.ssl.client.auth", "listener.name.out.plain.sasl.jaas.config"]
)
def test_a_promise_of_protection_is_refused_at_run_time_as_well(broker, key):
    shard = ShardUnderTest()
    assert alter(shard, BROKER, broker, key, "required") == ErrorCode.INVALID_REQUEST
    assert key not in described(shard, BROKER, broker)[1]
    assert alter(shard, BROKER, broker, key, None, DELETE) == 0


def test_the_legacy_form_refuses_it_too():
    resource = legacy.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=(legacy.AlterableConfig(name="ssl.client.auth", value="required"),),
    )
    request = legacy.AlterConfigsRequest(resources=(resource,))
    (answer,) = ShardUnderTest().run(alter_configs, request).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "ssl.client.auth promises TLS, but this version has no TLS" in answer.error_message


def test_min_insync_replicas_is_one_for_the_whole_cluster():
    """As in Kafka, where eligible leader replicas depend on it (KIP-966)."""
    shard = ShardUnderTest()
    assert alter(shard, BROKER, "1", "min.insync.replicas", "2") == ErrorCode.INVALID_CONFIG
    everywhere = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert described(shard, BROKER, "1")[1]["min.insync.replicas"] == ("1", everywhere)
    assert alter(shard, BROKER, "", "min.insync.replicas", "2") == 0
    assert described(shard, BROKER, "")[1]["min.insync.replicas"] == ("2", everywhere)
    assert alter(shard, BROKER, "", "min.insync.replicas", None, AlterOperation.DELETE) == ErrorCode.INVALID_CONFIG
    assert described(shard, BROKER, "")[1]["min.insync.replicas"] == ("2", everywhere)


def test_two_resources_of_a_request_are_judged_by_the_min_insync_replicas_that_is_then_in_force():
    """Else the value of a topic would rise without a new partition epoch, and a late proposal of its leader count."""
    world = ClusterWorld()
    for broker in (1, 2, 3):
        world.register(broker, broker)
        world.heartbeat(broker, offset=len(world.log))
    world.create("t", replicas=[[1, 2, 3]], configs={"min.insync.replicas": "1"})
    removed = AlterableConfig(name="min.insync.replicas", config_operation=AlterOperation.DELETE, value=None)
    raised = AlterableConfig(name="min.insync.replicas", config_operation=AlterOperation.SET, value="2")
    resources = (
        AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=(removed,)),
        AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(raised,)),
    )
    world.run(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=resources))
    assert world.image.topics_by_name["t"].partitions[0].partition_epoch == 1


def test_a_cluster_of_an_earlier_version_gets_its_min_insync_replicas_when_a_controller_becomes_active():
    world = ClusterWorld({"min.insync.replicas": "2"})
    world.register(1, 1)
    world.log = [(record, epoch) for record, epoch in world.log if b"min.insync" not in record.value]
    world.fail_over()
    assert not has_min_insync(world.image)
    assert world.shard.next_deadline_ms() == 0
    list(world.advance(0))
    assert world.image.configs_of(ResourceType.BROKER, "") == {"min.insync.replicas": "2"}
    assert world.shard.next_deadline_ms() != 0
