"""Metadata about brokers and replicas, from three nodes of Kafka and three of Odradek."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.cluster_stage import ClusterStage, Observed, Scenario, compare
from compat_tests.clusters import Nodes
from compat_tests.every_version import Wire
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_acls import CreateAclsRequest
from odradek.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.wire.messages.create_topics import CreateTopicsRequest
from odradek.wire.messages.delete_acls import DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.produce import ProduceRequest
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

OF_CONTROLLERS = {17, 36, 41, 50, 59, 63, 73, 82}
"""SASL; descriptions of tokens and users, at which Kafka's controllers fail internally; requests between nodes."""
BROKER = 4
CONTROLLERS = 2

ANY_ACL = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
ADMINISTRATION: list[tuple[ApiKey, int, Any]] = [
    (
        ApiKey.DESCRIBE_ACLS,
        3,
        DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
    ),
    (ApiKey.CREATE_ACLS, 3, CreateAclsRequest()),
    (ApiKey.DELETE_ACLS, 3, DeleteAclsRequest()),
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        DescribeConfigsRequest(
            resources=(DescribeConfigsResource(resource_type=2, resource_name="not-there", configuration_keys=None),)
        ),
    ),
    (ApiKey.CREATE_DELEGATION_TOKEN, 3, CreateDelegationTokenRequest()),
    (ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest()),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ExpireDelegationTokenRequest()),
]
"""Requests of tools to controllers (`--bootstrap-controller`), beyond those that other scenarios send to brokers."""


def brokers(stage: ClusterStage) -> Iterator[Observed]:
    """Every node returns all brokers, with their racks and in order."""
    for node in stage.running:
        for version in (1, 12, 13):
            asked = MetadataRequest(topics=(), allow_auto_topic_creation=version < 4)
            answer = stage.call(node, ApiKey.METADATA, version, asked)
            yield f"metadata {version} of {node}", answer.brokers
            assert answer.controller_id in stage.running
        cluster = stage.call(node, ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest())
        yield f"cluster of {node}", (cluster.error_code, sorted(cluster.brokers, key=lambda each: each.broker_id))


def placement(stage: ClusterStage) -> Iterator[Observed]:
    """The number of partitions that each broker leads is Kafka's; which ones, and the other replicas, are random."""
    for partitions, factor in ((1, 1), (2, 3), (3, 3), (7, 2), (9, 3), (-1, -1)):
        topic = stage.create(suffix=f"-{partitions}-{factor}", num_partitions=partitions, replication_factor=factor)
        answer = stage.partitions(topic)
        led = Counter(part.leader_id for part in answer)
        assert all(part.replica_nodes[0] == part.leader_id for part in answer)
        assert all(len(set(part.replica_nodes)) == len(part.replica_nodes) for part in answer)
        yield topic, sorted(led.values())


def replicas(stage: ClusterStage) -> Iterator[Observed]:
    """A topic with explicit replicas, in each version of Metadata and DescribeTopicPartitions."""
    topic = stage.create([[3, 1, 2], [1, 2, 3], [2, 3, 1]], configs={"min.insync.replicas": "1"})
    for index, isr in enumerate(([1, 2, 3],) * 3):
        stage.await_isr(topic, index, *isr)
    for node in stage.running:
        yield f"described by {node}", stage.described(topic, node)
        for version in (0, 5, 7, 13):
            topics = (MetadataRequestTopic(name=topic),)
            asked = MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
            yield f"metadata {version} of {node}", stage.call(node, ApiKey.METADATA, version, asked).topics


def quorum(stage: ClusterStage) -> Iterator[Observed]:
    """DescribeQuorum by every broker: the active controller answers for all, with the voters and their log ends."""
    leader = stage.active_controller()
    for node in stage.running:
        answer = stage.quorum(node)
        [part] = answer.topics[0].partitions
        assert part.leader_id == leader
        voters = sorted(part.current_voters, key=lambda each: each.replica_id)
        yield (
            f"by {node}",
            {
                "error": (answer.error_code, part.error_code),
                "epoch": part.leader_epoch > 0,
                "high watermark": part.high_watermark > 0,
                "voters": [voter.replica_id for voter in voters],
                "ends": [voter.log_end_offset > 0 for voter in voters],
                "fetched": [voter.last_fetch_timestamp > 0 for voter in voters],
                "caught up": [voter.last_caught_up_timestamp > 0 for voter in voters],
                "observers": len(part.observers),
                "nodes": [
                    (node.node_id, [(each.name, bool(each.port)) for each in node.listeners])
                    for node in sorted(answer.nodes, key=lambda each: each.node_id)
                ],
            },
        )


def log_dirs(stage: ClusterStage) -> Iterator[Observed]:
    """DescribeLogDirs by every broker, which returns its own directory."""
    topic = stage.create([[1, 2], [2, 3]])
    stage.write(1, topic)
    stage.await_isr(topic, 0, 1, 2)
    asked = DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic=topic, partitions=(0, 1, 7)),))
    for node in stage.running:
        results = stage.call(node, ApiKey.DESCRIBE_LOG_DIRS, 4, asked).results
        found = [
            (part.partition_index, part.offset_lag, part.is_future_key)
            for result in results
            for each in result.topics
            for part in sorted(each.partitions, key=lambda part: part.partition_index)
        ]
        yield f"of {node}", {"errors": [result.error_code for result in results], "found": found}


def broker_settings(stage: ClusterStage) -> Iterator[Observed]:
    """A broker describes its own settings only; cluster-wide settings and changed ones are returned by every broker."""
    for node in stage.running:
        for asked in ("", "1", "2", "9", "x"):
            resource = DescribeConfigsResource(
                resource_type=BROKER, resource_name=asked, configuration_keys=("node.id", "log.cleaner.threads")
            )
            request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
            results = stage.call(node, ApiKey.DESCRIBE_CONFIGS, 4, request).results
            yield f"of {asked!r} at {node}", [_config(result) for result in results]
    for named, name, value in (
        ("2", "log.cleaner.threads", "2"),
        ("9", "log.cleaner.threads", "2"),
        ("2", "node.id", "7"),
    ):
        for node in (1, 2):
            answer = _set(stage, node, named, name, value)
            yield f"{name} of {named} at {node}", [(each.error_code, bool(each.error_message)) for each in answer]
    wait_for(lambda: _cleaners(stage) == "2", "the changed setting")
    _set(stage, 2, "2", "log.cleaner.threads", None)
    wait_for(lambda: _cleaners(stage) == "1", "the default again")


def _config(result: Any) -> Any:
    """A described resource: its error, and each setting with its source."""
    configs = sorted((config.name, config.value, config.config_source) for config in result.configs)
    return (result.error_code, configs)


def _set(stage: ClusterStage, node: int, broker: str, name: str, value: str | None) -> Any:
    """IncrementalAlterConfigs of a broker's setting, by any node; without a value the default is restored."""
    change = AlterableConfig(name=name, config_operation=int(value is None), value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    return stage.call(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses


def _cleaners(stage: ClusterStage) -> str:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name="2", configuration_keys=("log.cleaner.threads",)
    )
    request = DescribeConfigsRequest(resources=(resource,))
    return stage.call(2, ApiKey.DESCRIBE_CONFIGS, 4, request).results[0].configs[0].value


def features(stage: ClusterStage) -> Iterator[Observed]:
    """UpdateFeatures by a broker that is not the controller, and the level at every broker afterwards."""
    elsewhere = next(node for node in stage.running if node != stage.active_controller())
    for level in (1, 2):
        kind = 1 if level == 2 else 2
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
        answer = stage.call(elsewhere, ApiKey.UPDATE_FEATURES, 2, UpdateFeaturesRequest(feature_updates=(update,)))
        yield f"to {level}", answer.error_code
        for node in stage.running:
            wait_for(lambda node=node, level=level: _level(stage, node) == level, f"the level at node {node}")
    wrong = FeatureUpdateKey(feature="transaction.version", max_version_level=99)
    answer = stage.call(elsewhere, ApiKey.UPDATE_FEATURES, 2, UpdateFeaturesRequest(feature_updates=(wrong,)))
    yield "beyond all", answer.error_code


def _level(stage: ClusterStage, node: int) -> int:
    request = ApiVersionsRequest(client_software_name="cluster", client_software_version="1")
    answer = stage.call(node, ApiKey.API_VERSIONS, 3, request).finalized_features
    return next(each.max_version_level for each in answer if each.name == "transaction.version")


def controllers(stage: ClusterStage) -> Iterator[Observed]:
    """The controller listener serves a controller's requests, and closes the connection for all others."""
    leader, made = stage.active_controller(), dict[str, Any]()
    for node in stage.running:
        part = "active" if node == leader else "standby"
        with Wire(stage.nodes[node].controller) as wire:
            request = ApiVersionsRequest(client_software_name="cluster", client_software_version="1")
            keys = {each.api_key: each.max_version for each in wire.call(ApiKey.API_VERSIONS, 3, request).api_keys}
            yield f"versions of {node}", {key: version for key, version in keys.items() if key not in OF_CONTROLLERS}
            cluster = wire.call(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(endpoint_type=CONTROLLERS))
            nodes = sorted((each.broker_id, bool(each.port), each.rack) for each in cluster.brokers)
            yield f"cluster of {node}", (cluster.error_code, cluster.controller_id == leader, nodes)
            brokers = wire.call(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest())
            yield f"brokers of {node}", brokers.error_code
            created = wire.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(stage.topic("no!"),)))
            made[part] = [each.error_code for each in created.topics]
            for key, version, asked in ADMINISTRATION:
                yield f"{key.name} {version} of {node}", wire.call(key, version, asked)
        yield f"metadata of {node}", _refused(stage, node, ApiKey.METADATA, 12, MetadataRequest(topics=()))
        yield f"produce to {node}", _refused(stage, node, ApiKey.PRODUCE, 9, ProduceRequest(acks=1))
    yield "create", made


def _refused(stage: ClusterStage, node: int, key: ApiKey, version: int, request: Any) -> str:
    """`closed` if the controller listener closes the connection, else the type of its answer."""
    with Wire(stage.nodes[node].controller) as wire:
        try:
            return type(wire.call(key, version, request)).__name__
        except ConnectionError:
            return "closed"


SCENARIOS: list[Scenario] = [
    brokers,
    placement,
    replicas,
    quorum,
    log_dirs,
    broker_settings,
    features,
    controllers,
]


KNOWN = {"broker_settings": [r".*log\.cleaner\.threads of 2 at 1.*"]}
"""The controller has all brokers' settings, and any broker forwards the request to it (docs/differences.md)."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_answers_are_kafkas(kafka_nodes: Nodes, odradek_nodes: Nodes, scenario: Scenario) -> None:
    compare(kafka_nodes, odradek_nodes, scenario, known=KNOWN.get(scenario.__name__, ()))
