"""The administrative part of `every_version`: disks, leaders, the quorum, features, config resources."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from compat_tests.every_version import Stage, comparable, script
from odradek.coordinator.metadata.image.image import SUPPORTED_FEATURES
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.list_config_resources import ListConfigResourcesRequest
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.schema.types import ZERO_UUID

CLIENT_METRICS, GROUP = 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
PREFERRED, UNCLEAN = 0, 1
NEWEST_METADATA = 30
DIRECTORY = UUID(int=5)
SETTLING = "quota-barrier"


def as_data(answer: Any) -> Any:
    """The answer as plain data; a message is reduced to whether there is one, since its wording differs."""
    return _without_words(comparable(answer))


def settle(stage: Stage) -> None:
    """Waits until the broker has published earlier changes: Kafka publishes metadata in order, after answering."""
    value = time.monotonic()
    entity = (EntityData(entity_type="user", entity_name=SETTLING),)
    change = AlterClientQuotasRequestEntryData(entity=entity, ops=(OpData(key="request_percentage", value=value),))
    answer = stage.wire.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=(change,)))
    assert answer.entries[0].error_code == 0, answer
    mine = (ComponentData(entity_type="user", match_type=0, match=SETTLING),)
    for _ in range(1000):
        seen = stage.wire.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest(components=mine)).entries
        if seen and seen[0].values[0].value == value:
            return
        time.sleep(0.005)
    raise AssertionError("an earlier change is not visible")


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: bool(inner) if name == "error_message" else _without_words(inner) for name, inner in value.items()
        }
    return [_without_words(item) for item in value] if isinstance(value, list) else value


@script(ApiKey.DESCRIBE_LOG_DIRS)
def _describe_log_dirs(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.filled()
    some = (DescribableLogDirTopic(topic=topic, partitions=(0, 1, 7)), DescribableLogDirTopic(topic="not-there"))
    for asked in (some, None, ()):
        answer = stage.wire.call(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=asked))
        yield answer.error_code, [_log_dir(result, topic) for result in answer.results]


def _log_dir(result: Any, topic: str) -> Any:
    """One directory; sizes, which differ between stores, are reduced to whether they are set."""
    mine = [each for each in result.topics if each.name == topic]
    partitions = sorted((part for each in mine for part in each.partitions), key=lambda part: part.partition_index)
    return {
        "error": result.error_code,
        "total": result.total_bytes > 0,
        "usable": 0 < result.usable_bytes <= result.total_bytes,
        "cordoned": result.is_cordoned,
        "path": result.log_dir.startswith(("/", "postgresql+psycopg://")),  # a database has no directory
        "partitions": [
            (part.partition_index, part.partition_size > 0, part.offset_lag, part.is_future_key) for part in partitions
        ],
    }


@script(ApiKey.ALTER_REPLICA_LOG_DIRS)
def _alter_replica_log_dirs(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    described = stage.wire.call(ApiKey.DESCRIBE_LOG_DIRS, 3, DescribeLogDirsRequest(topics=None))
    own = described.results[0].log_dir
    for path in (own, "/no/such/directory", "relative"):
        wanted = (
            AlterReplicaLogDirTopic(name=topic, partitions=(0, 9)),
            AlterReplicaLogDirTopic(name="not-there", partitions=(0,)),
        )
        request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=wanted),))
        answer = stage.wire.call(ApiKey.ALTER_REPLICA_LOG_DIRS, version, request)
        yield sorted(
            (result.topic_name, part.partition_index, part.error_code)
            for result in answer.results
            for part in result.partitions
        )


@script(ApiKey.LIST_CONFIG_RESOURCES)
def _list_config_resources(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    yield as_data(_set(stage, GROUP, stage.group, "consumer.session.timeout.ms", "46000"))
    yield as_data(_set(stage, CLIENT_METRICS, stage.name, "interval.ms", "60000"))
    settle(stage)
    kinds: list[tuple[int, ...]] = [(), *([(16,), (32,), (2,), (4,), (8,), (2, 16, 16), (0,), (99,)] * version)]
    for asked in kinds:
        request = ListConfigResourcesRequest(resource_types=asked)
        answer = stage.wire.call(ApiKey.LIST_CONFIG_RESOURCES, version, request)
        mine = {each for each in answer.config_resources if each.resource_name in {topic, stage.group, stage.node_id}}
        named = {each for each in answer.config_resources if each.resource_name == stage.name}
        yield answer.error_code, sorted((each.resource_type, each.resource_name) for each in mine | named)


def _set(stage: Stage, kind: int, name: str, config: str, value: str | None, operation: int = SET) -> Any:
    change = (AlterableConfig(name=config, config_operation=operation, value=value),)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=change)
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    return stage.wire.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses


def config_resources_other_than_topics(stage: Stage) -> Iterator[Any]:
    """The configs of groups and client metrics that can be set, and their description."""
    for kind, changes in (
        (
            CLIENT_METRICS,
            [
                ("interval.ms", SET, "60000"),
                ("interval.ms", SET, "99"),
                ("interval.ms", SET, "3600001"),
                ("interval.ms", SET, "soon"),
                ("metrics", SET, "org.apache.kafka.producer.,org.apache.kafka.consumer."),
                ("metrics", APPEND, "more."),
                ("metrics", SUBTRACT, "org.apache.kafka.producer."),
                ("match", SET, "client_id=a.*,client_software_name=apache-kafka-java"),
                ("match", SET, "client_id"),
                ("match", SET, "nobody=knows"),
                ("match", SET, "client_id=["),
                ("match", SET, "client_id=a=b"),
                ("match", SET, "client_id="),
                ("match", SET, " client_id = a "),
                ("match", SET, "client_id=a=="),
                ("metrics", SET, "a,,b"),
                ("metrics", SET, "a,b,a"),
                ("metrics", SET, ""),
                ("metrics", SET, "*"),
                ("match", SET, ""),
                ("interval.ms", APPEND, "1"),
                ("no.such", SET, "1"),
                ("no.such", DELETE, None),
                ("match", DELETE, None),
            ],
        ),
        (
            GROUP,
            [
                ("consumer.session.timeout.ms", SET, "46000"),
                ("consumer.session.timeout.ms", SET, "1"),
                ("consumer.session.timeout.ms", SET, "1000000"),
                ("consumer.heartbeat.interval.ms", SET, "fast"),
                ("share.auto.offset.reset", SET, "by_duration:PT1H"),
                ("share.auto.offset.reset", SET, "never"),
                ("share.isolation.level", SET, "read_committed"),
                ("streams.num.standby.replicas", SET, "1"),
                ("streams.num.standby.replicas", SET, "3"),
                ("no.such", SET, "1"),
                ("consumer.session.timeout.ms", APPEND, "1"),
                ("share.isolation.level", DELETE, None),
            ],
        ),
    ):
        for name, operation, value in changes:
            yield name, operation, value, as_data(_set(stage, kind, stage.name, name, value, operation))
            settle(stage)
            yield _described(stage, kind, stage.name)
        for name, value in (("interval.ms", "60000"), ("no.such", "1")):
            yield as_data(_set(stage, kind, "", name, value))
        yield _described(stage, kind, "")
        yield _described(stage, kind, "not-there")


def _described(stage: Stage, kind: int, name: str) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    (result,) = stage.wire.call(ApiKey.DESCRIBE_CONFIGS, 4, request).results
    return result.error_code, sorted((config.name, _config(config)) for config in result.configs)


def _config(config: Any) -> Any:
    synonyms = [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]
    return config.value, config.config_source, config.config_type, config.read_only, config.is_sensitive, synonyms


@script(ApiKey.ELECT_LEADERS)
def _elect_leaders(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    asked = (TopicPartitions(topic=topic, partitions=(0, 1, 9)), TopicPartitions(topic="not-there", partitions=(0,)))
    for election in (PREFERRED, UNCLEAN, 7) if version >= 1 else (PREFERRED,):
        for partitions in (asked, ()):
            request = ElectLeadersRequest(election_type=election, topic_partitions=partitions, timeout_ms=9000)
            yield as_data(stage.wire.call(ApiKey.ELECT_LEADERS, version, request))
    for election in (PREFERRED, 7) if version >= 1 else (PREFERRED,):
        request = ElectLeadersRequest(election_type=election, topic_partitions=None)
        everything = stage.wire.call(ApiKey.ELECT_LEADERS, version, request)
        mine = [each for each in everything.replica_election_results if each.topic == topic]
        yield everything.error_code, [as_data(each.partition_result) for each in mine]


@script(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def _alter_partition_reassignments(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    node = int(stage.node_id)
    targets = [(node,), None, (), (node, node), (-1,), (node, 9), (9,)]
    for replicas in targets:
        parts = tuple(ReassignablePartition(partition_index=index, replicas=replicas) for index in (0, 9))
        topics = (
            ReassignableTopic(name=topic, partitions=parts),
            ReassignableTopic(name="not-there", partitions=parts),
        )
        for change in (True, False) if version >= 1 else (True,):
            request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=change)
            yield as_data(stage.wire.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request))
    yield as_data(stage.wire.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, AlterPartitionReassignmentsRequest()))


@script(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def _list_partition_reassignments(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    named = (
        ListPartitionReassignmentsTopics(name=topic, partition_indexes=(0, 9)),
        ListPartitionReassignmentsTopics(name="not-there", partition_indexes=(0,)),
    )
    for asked in (named, None, ()):
        request = ListPartitionReassignmentsRequest(topics=asked)
        yield as_data(stage.wire.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, version, request))


@script(ApiKey.DESCRIBE_QUORUM)
def _describe_quorum(stage: Stage, version: int) -> Iterator[Any]:
    asked = [("__cluster_metadata", 0), ("__cluster_metadata", 1), (stage.topic(), 0)]
    for name, index in asked:
        parts = (DescribeQuorumRequestPartitionData(partition_index=index),)
        topics = (DescribeQuorumRequestTopicData(topic_name=name, partitions=parts),)
        yield _quorum(stage.wire.call(ApiKey.DESCRIBE_QUORUM, version, DescribeQuorumRequest(topics=topics)))
    yield _quorum(stage.wire.call(ApiKey.DESCRIBE_QUORUM, version, DescribeQuorumRequest()))


def _quorum(answer: Any) -> Any:
    """The values that do not grow with time, and consistency of those that do."""
    return {
        "error": answer.error_code,
        "message": bool(answer.error_message),
        "nodes": [(node.node_id, [listener.name for listener in node.listeners]) for node in answer.nodes],
        "topics": [
            (
                part.partition_index,
                part.error_code,
                bool(part.error_message),
                part.leader_id,
                part.leader_epoch > 0,
                part.high_watermark > 0,
                [
                    (
                        voter.replica_id,
                        voter.replica_directory_id == ZERO_UUID,
                        voter.log_end_offset >= part.high_watermark,
                        voter.last_fetch_timestamp > 0,
                        voter.last_caught_up_timestamp > 0,
                    )
                    for voter in part.current_voters
                ],
                len(part.observers),
            )
            for topic in answer.topics
            for part in topic.partitions
        ],
    }


@script(ApiKey.UPDATE_FEATURES)
def _update_features(stage: Stage, version: int) -> Iterator[Any]:
    for update in feature_updates(version):
        for dry in (True, False) if version >= 1 else (False,):
            request = UpdateFeaturesRequest(feature_updates=update, validate_only=dry)
            yield as_data(stage.wire.call(ApiKey.UPDATE_FEATURES, version, request))
    yield _level(stage, "metadata.version")
    for name, (lowest, highest) in sorted(SUPPORTED_FEATURES.items()):
        if version >= 1:
            for level, kind in itertools.product(
                (lowest - 1, lowest, highest - 1, highest, highest + 1), (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
            ):
                yield name, level, kind, _update(stage, version, name, level, kind, dry=True)
            yield _level(stage, name)


def levels_there_and_back(stage: Stage) -> Iterator[Any]:
    """Every feature that can be disabled is downgraded in both ways, and upgraded again."""
    for name in sorted(name for name, (lowest, _) in SUPPORTED_FEATURES.items() if lowest == 0):
        ((_, highest),) = _level(stage, name)
        for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            try:
                for level in range(highest - 1, -1, -1):
                    yield name, level, _update(stage, 2, name, level, kind)
                    yield _level(stage, name)
            finally:
                _update(stage, 2, name, highest, UPGRADE)
            yield _level(stage, name)


def _update(stage: Stage, version: int, name: str, level: int, kind: int, *, dry: bool = False) -> Any:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=(update,), validate_only=dry)
    return as_data(stage.wire.call(ApiKey.UPDATE_FEATURES, version, request))


def feature_updates(version: int) -> list[tuple[FeatureUpdateKey, ...]]:
    """Updates that change nothing: refused ones, and ones to the level in force."""
    name = "metadata.version"
    updates: list[tuple[FeatureUpdateKey, ...]] = [
        (FeatureUpdateKey(feature=name, max_version_level=level),) for level in (NEWEST_METADATA, 31, 6, 0, -1)
    ]
    updates.append((FeatureUpdateKey(feature="no.such.feature", max_version_level=1),))
    updates.append((FeatureUpdateKey(feature="no.such.feature", max_version_level=0),))
    updates.append((FeatureUpdateKey(feature=name, max_version_level=NEWEST_METADATA - 1),))
    updates.append(())
    both = (
        FeatureUpdateKey(feature=name, max_version_level=NEWEST_METADATA),
        FeatureUpdateKey(feature="no.such.feature", max_version_level=1),
    )
    updates.append(both)
    updates.append(both[:1] * 2)
    if version >= 1:
        updates += [
            (FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind),)
            for level, kind in (
                (NEWEST_METADATA, SAFE_DOWNGRADE),
                (NEWEST_METADATA, UNSAFE_DOWNGRADE),
                (NEWEST_METADATA, 0),
                (NEWEST_METADATA, 9),
                (NEWEST_METADATA - 1, 9),
                (31, SAFE_DOWNGRADE),
                (0, SAFE_DOWNGRADE),
            )
        ]
    else:
        updates.append((FeatureUpdateKey(feature=name, max_version_level=NEWEST_METADATA, allow_downgrade=True),))
        updates.append((FeatureUpdateKey(feature=name, max_version_level=0, allow_downgrade=True),))
    return updates


def _level(stage: Stage, name: str) -> Any:
    settle(stage)
    request = ApiVersionsRequest(client_software_name="every-version", client_software_version="1.0")
    answer = stage.wire.call(ApiKey.API_VERSIONS, 4, request)
    return [
        (feature.min_version_level, feature.max_version_level)
        for feature in answer.finalized_features
        if feature.name == name
    ]


@script(ApiKey.UNREGISTER_BROKER)
def _unregister_broker(stage: Stage, version: int) -> Iterator[Any]:
    for broker_id in (7, -1):
        yield as_data(stage.wire.call(ApiKey.UNREGISTER_BROKER, version, UnregisterBrokerRequest(broker_id=broker_id)))


@script(ApiKey.ADD_RAFT_VOTER)
def _add_raft_voter(stage: Stage, version: int) -> Iterator[Any]:
    listener = Listener(name="CONTROLLER", host="localhost", port=9093)
    other = Listener(name="ANOTHER", host="localhost", port=9093)
    for cluster, voter, directory, listeners in (
        (None, 7, DIRECTORY, (listener,)),
        (None, 7, DIRECTORY, (listener, other)),
        (None, int(stage.node_id), DIRECTORY, (listener,)),
        ("another", 7, DIRECTORY, (listener,)),
        (None, 7, ZERO_UUID, (listener,)),
        (None, 7, DIRECTORY, ()),
        (None, -1, DIRECTORY, (listener,)),
    ):
        request = AddRaftVoterRequest(
            cluster_id=cluster, voter_id=voter, voter_directory_id=directory, timeout_ms=5000, listeners=listeners
        )
        yield as_data(stage.wire.call(ApiKey.ADD_RAFT_VOTER, version, request))


@script(ApiKey.REMOVE_RAFT_VOTER)
def _remove_raft_voter(stage: Stage, version: int) -> Iterator[Any]:
    for cluster, voter, directory in (
        (None, 7, DIRECTORY),
        (None, int(stage.node_id), DIRECTORY),
        ("another", 7, DIRECTORY),
        (None, 7, ZERO_UUID),
        (None, -1, DIRECTORY),
    ):
        request = RemoveRaftVoterRequest(cluster_id=cluster, voter_id=voter, voter_directory_id=directory)
        yield as_data(stage.wire.call(ApiKey.REMOVE_RAFT_VOTER, version, request))
