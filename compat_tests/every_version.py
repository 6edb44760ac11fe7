"""A request for every version of every API that Odradek advertises, and the parts of its answer that must be equal."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any
from uuid import UUID

from compat_tests.frames import create_topic
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ADVERTISED, KAFKA_VERSIONS, ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from odradek.wire.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from odradek.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.schema.codec import encode
from odradek.wire.schema.schema import Message, Struct

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
TOPIC, BROKER_RESOURCE = 2, 4
NO_TOPIC = UUID(int=0x77)
"""An id that no topic has."""
TIMESTAMP_MS = 1_700_000_000_000

DIFFERS_BY_NATURE = frozenset(
    {
        "cluster_id", "host", "port", "topic_id", "member_id", "producer_id", "session_id", "finalized_features_epoch",
        "finalized_features", "supported_features", "api_keys", "client_host", "leader",
    }
)  # fmt: skip
"""Fields whose values belong to the broker, not to the protocol: only whether they are set is compared.

`leader` is the member id of a JoinGroup answer. Node ids, replicas, leaders and their epochs are compared as they are.
"""

OURS = frozenset({"flush.messages", "log.flush.interval.messages"})
"""Settings with a default of our own (docs/differences.md)."""


class Wire:
    """One connection for whole messages of a chosen version."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self._correlation = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, key: ApiKey, version: int, request: Message) -> Any:
        """Sends and receives. Raises ConnectionResetError if the broker closes the connection instead."""
        self._correlation += 1
        self.socket.sendall(encode_request(request, version, self._correlation, "every-version"))
        (size,) = struct.unpack(">i", self.exactly(4))
        correlation, response = decode_response(key, version, self.exactly(size))
        assert correlation == self._correlation
        return response

    def call_all(self, key: ApiKey, version: int, request: Message) -> list[Any]:
        """Sends to every node. Raises as `call` does."""
        return [self.call(key, version, request)]

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> str:
        """Creates a topic; returns the error's name, once its leaders answer."""
        return create_topic(self.bootstrap, name, partitions, configs)

    def add_partition(self, name: str, count: int) -> None:
        """Adds one partition to a topic, which then has `count`."""
        wanted = (CreatePartitionsTopic(name=name, count=count, assignments=self._new_replicas()),)
        self.call(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=wanted, timeout_ms=9000))

    def _new_replicas(self) -> tuple[CreatePartitionsAssignment, ...] | None:
        """The replicas of a partition to be added; None lets the broker choose."""
        return None

    def exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            data += chunk
        return bytes(data)


class Stage:
    """Topics and groups for the requests of one version."""

    def __init__(self, wire: Wire, name: str, node_id: str) -> None:
        self.wire, self.name, self.node_id = wire, name, node_id
        self.group = f"{name}-group"
        self.ids: dict[str, UUID] = {}

    def id_of(self, topic: str) -> UUID:
        """The id of a topic that `topic` created, otherwise an id that no topic has."""
        return self.ids.get(topic, NO_TOPIC)

    def topic(self, suffix: str = "", partitions: int = 2, configs: Mapping[str, str] = {}) -> str:
        """Creates a topic; returns its name once its leaders answer."""
        name = f"{self.name}{suffix}"
        error = self.wire.create_topic(name, partitions, dict(configs))
        assert error == "NONE", f"CreateTopics {name}: {error}"
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        self.ids[name] = self.wire.call(ApiKey.METADATA, 12, asked).topics[0].topic_id
        return name

    def filled(self) -> str:
        """A topic with three records in partition 0."""
        name = self.topic()
        assert self.produce(name, 9).responses[0].partition_responses[0].error_code == 0
        return name

    def produce(self, topic: str, version: int, acks: int = -1) -> Any:
        batch = build_batch([SimpleRecord(b"k", b"v%d" % n, TIMESTAMP_MS + n) for n in range(3)])
        parts = (PartitionProduceData(index=0, records=memoryview(batch)),)
        data = (TopicProduceData(name=topic, topic_id=self.id_of(topic), partition_data=parts),)
        return self.wire.call(ApiKey.PRODUCE, version, ProduceRequest(acks=acks, timeout_ms=9000, topic_data=data))

    def coordinator(self) -> None:
        """Waits until the group's coordinator is available."""
        wait_for(self._is_coordinated, f"the coordinator of {self.group}")

    def _is_coordinated(self) -> bool:
        found = self.wire.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=self.group))
        if found.error_code:
            return False
        listed = self.wire.call(ApiKey.OFFSET_FETCH, 5, OffsetFetchRequest(group_id=self.group, topics=None))
        return not listed.error_code

    def transaction_coordinator(self, version: int) -> Any:
        """Waits until the coordinator of a transactional id is available."""
        batched = version >= 4
        request = FindCoordinatorRequest(
            key="" if batched else self.name, coordinator_keys=(self.name,) if batched else (), key_type=1
        )
        for _ in range(400):
            found = self.wire.call(ApiKey.FIND_COORDINATOR, version, request)
            if not (found.coordinators[0] if batched else found).error_code:
                return found
            time.sleep(0.05)
        raise AssertionError("no coordinator")

    def commit(self, topic: str, version: int = 5) -> Any:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=2, committed_metadata="note")
        request = OffsetCommitRequest(
            group_id=self.group,
            topics=(OffsetCommitRequestTopic(name=topic, topic_id=self.id_of(topic), partitions=(part,)),),
        )
        return self.wire.call(ApiKey.OFFSET_COMMIT, version, request)

    def join(self, version: int, member_id: str = "") -> Any:
        subscription = b"\0\0" + bytes(encode(ConsumerProtocolSubscription(topics=(self.name,)), 0))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=30000,
            rebalance_timeout_ms=30000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        )
        return self.wire.call(ApiKey.JOIN_GROUP, version, request)

    def joined(self, version: int = 3) -> Any:
        """Joins the group, in two steps where the version requires it."""
        first = self.join(version)
        return first if first.error_code == 0 else self.join(version, first.member_id)

    def sync(self, version: int, member: Any) -> Any:
        return self.wire.call(
            ApiKey.SYNC_GROUP,
            version,
            SyncGroupRequest(
                group_id=self.group,
                generation_id=member.generation_id,
                member_id=member.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=(SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"mine"),),
            ),
        )


Script = Callable[[Stage, int], Iterator[Any]]
SCRIPTS: dict[ApiKey, Script] = {}


def script(key: ApiKey) -> Callable[[Script], Script]:
    def add(function: Script) -> Script:
        SCRIPTS[key] = function
        return function

    return add


@script(ApiKey.API_VERSIONS)
def _api_versions(stage: Stage, version: int) -> Iterator[Any]:
    request = ApiVersionsRequest(client_software_name="every-version", client_software_version="1.0")
    yield stage.wire.call(ApiKey.API_VERSIONS, version, request)
    if version >= 3:
        yield stage.wire.call(ApiKey.API_VERSIONS, version, ApiVersionsRequest(client_software_name="no good!"))


@script(ApiKey.PRODUCE)
def _produce(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    yield stage.produce(topic, version)
    yield stage.produce(topic, version, acks=1)
    yield stage.produce(topic, version, acks=7)
    yield stage.produce("not-there", version)


@script(ApiKey.LIST_OFFSETS)
def _list_offsets(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.filled()
    special = [LATEST, EARLIEST, *([MAX_TIMESTAMP] if version >= 7 else []), *([-4] if version >= 8 else []), -5, -6]
    for timestamp in (*special, TIMESTAMP_MS + 1, TIMESTAMP_MS + 99):
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(part,)),), timeout_ms=5000
        )
        yield stage.wire.call(ApiKey.LIST_OFFSETS, version, request)


@script(ApiKey.METADATA)
def _metadata(stage: Stage, version: int) -> Iterator[Any]:
    if version >= 10:
        topic = stage.topic("-by-id")
        for asked in ((stage.id_of(topic), None), (NO_TOPIC, None), (stage.id_of(topic), "not-there")):
            by_id = (MetadataRequestTopic(topic_id=asked[0], name=asked[1]),)
            request = MetadataRequest(topics=by_id, allow_auto_topic_creation=False)
            yield stage.wire.call(ApiKey.METADATA, version, request)
    for name in (stage.topic(), "not there", "not-there"):
        topics = (MetadataRequestTopic(name=name),)
        yield (
            stage.wire.call(
                ApiKey.METADATA, version, MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
            )
            if version >= 4 or name == stage.name
            else None
        )


@script(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def _offset_for_leader_epoch(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.filled()
    for epoch in (0, 5):
        part = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        topics = (OffsetForLeaderTopic(topic=topic, partitions=(part,)),)
        yield stage.wire.call(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, version, OffsetForLeaderEpochRequest(replica_id=-2, topics=topics)
        )


@script(ApiKey.DELETE_RECORDS)
def _delete_records(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.filled()
    compacted = stage.topic("-compacted", configs={"cleanup.policy": "compact"})
    asked = [(topic, 0, offset) for offset in (1, 0, 4, -2, -1)] + [(topic, 7, 0), ("no-such", 0, 0), (compacted, 0, 0)]
    for name, index, offset in asked:
        part = DeleteRecordsPartition(partition_index=index, offset=offset)
        topics = (DeleteRecordsTopic(name=name, partitions=(part,)),)
        yield stage.wire.call(ApiKey.DELETE_RECORDS, version, DeleteRecordsRequest(topics=topics, timeout_ms=9000))
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(topics=(FetchTopic(topic=topic, partitions=(part,)),), max_wait_ms=0, min_bytes=0)
    yield stage.wire.call(ApiKey.FETCH, 11, fetch)


@script(ApiKey.FIND_COORDINATOR)
def _find_coordinator(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    batched = version >= 4
    request = FindCoordinatorRequest(
        key="" if batched else stage.group, coordinator_keys=(stage.group, "another") if batched else ()
    )
    yield stage.wire.call(ApiKey.FIND_COORDINATOR, version, request)
    if version >= 1:
        yield stage.transaction_coordinator(version)


@script(ApiKey.OFFSET_COMMIT)
def _offset_commit(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    yield stage.commit(stage.topic(), version)
    yield stage.commit("not-there", version)


@script(ApiKey.OFFSET_FETCH)
def _offset_fetch(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    topic = stage.topic()
    stage.commit(topic)
    if version >= 8:
        named, unknown = [
            (OffsetFetchRequestTopics(name=name, topic_id=stage.id_of(name), partition_indexes=(0, 1)),)
            for name in (topic, "not-there")
        ]
        for topics in (named, None, unknown + named):
            groups = (OffsetFetchRequestGroup(group_id=stage.group, topics=topics),)
            yield stage.wire.call(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=groups))
        return
    old = (OffsetFetchRequestTopic(name=topic, partition_indexes=(0, 1)),)
    for some in (old, None) if version >= 2 else (old,):
        yield stage.wire.call(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(group_id=stage.group, topics=some))


@script(ApiKey.OFFSET_DELETE)
def _offset_delete(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    topic = stage.topic()
    stage.commit(topic)
    parts = (OffsetDeleteRequestPartition(partition_index=0),)
    topics = (OffsetDeleteRequestTopic(name=topic, partitions=parts),)
    for group in (stage.group, "no-such-group"):
        yield stage.wire.call(ApiKey.OFFSET_DELETE, version, OffsetDeleteRequest(group_id=group, topics=topics))


@script(ApiKey.JOIN_GROUP)
def _join_group(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    first = stage.join(version)
    yield first
    if first.error_code:
        yield stage.join(version, first.member_id)
    yield stage.join(version, "nobody")


@script(ApiKey.SYNC_GROUP)
def _sync_group(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    member = stage.joined()
    yield stage.sync(version, member)
    request = SyncGroupRequest(group_id=stage.group, generation_id=99, member_id=member.member_id)
    if version >= 5:
        request = SyncGroupRequest(
            group_id=stage.group,
            generation_id=99,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="range",
        )
    yield stage.wire.call(ApiKey.SYNC_GROUP, version, request)


@script(ApiKey.HEARTBEAT)
def _heartbeat(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    member = stage.joined()
    stage.sync(3, member)
    for generation, member_id in ((member.generation_id, member.member_id), (9, member.member_id), (1, "nobody")):
        request = HeartbeatRequest(group_id=stage.group, generation_id=generation, member_id=member_id)
        yield stage.wire.call(ApiKey.HEARTBEAT, version, request)


@script(ApiKey.LEAVE_GROUP)
def _leave_group(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    for member_id in ("nobody", stage.joined().member_id):
        batched = version >= 3
        members = (MemberIdentity(member_id=member_id),) if batched else ()
        request = LeaveGroupRequest(group_id=stage.group, member_id="" if batched else member_id, members=members)
        yield stage.wire.call(ApiKey.LEAVE_GROUP, version, request)


@script(ApiKey.DESCRIBE_GROUPS)
def _describe_groups(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    member = stage.joined()
    asked = DescribeGroupsRequest(groups=(stage.group, "no-such-group"), include_authorized_operations=version >= 3)
    yield _by_group(stage.wire.call(ApiKey.DESCRIBE_GROUPS, version, asked).groups)
    stage.sync(3, member)
    yield _by_group(stage.wire.call(ApiKey.DESCRIBE_GROUPS, version, asked).groups)


@script(ApiKey.LIST_GROUPS)
def _list_groups(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    stage.commit(stage.topic())
    listed = stage.wire.call(ApiKey.LIST_GROUPS, version, ListGroupsRequest())
    yield [group for group in listed.groups if group.group_id == stage.group]
    if version >= 4:
        stable = stage.wire.call(ApiKey.LIST_GROUPS, version, ListGroupsRequest(states_filter=("Stable",)))
        yield [group for group in stable.groups if group.group_id == stage.group]


@script(ApiKey.DELETE_GROUPS)
def _delete_groups(stage: Stage, version: int) -> Iterator[Any]:
    stage.coordinator()
    stage.commit(stage.topic())
    groups = (stage.group, "no-such-group")
    deleted = stage.wire.call(ApiKey.DELETE_GROUPS, version, DeleteGroupsRequest(groups_names=groups))
    yield _by_group(deleted.results)


@script(ApiKey.CREATE_TOPICS)
def _create_topics(stage: Stage, version: int) -> Iterator[Any]:
    wanted = (
        CreatableTopic(name=stage.name, num_partitions=3, replication_factor=1),
        CreatableTopic(name=f"{stage.name}!", num_partitions=1, replication_factor=1),
        CreatableTopic(name=f"{stage.name}-0", num_partitions=0, replication_factor=1),
        CreatableTopic(name=f"{stage.name}-rf", num_partitions=1, replication_factor=9),
    )
    for dry in (True, False, False):
        yield _in_order(
            stage.wire.call(ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=wanted, validate_only=dry)).topics
        )
    for topics in _too_large(stage.name):
        answer = stage.wire.call(ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=topics, validate_only=True))
        yield len(answer.topics), _in_order(answer.topics)[:2]


def _too_large(name: str) -> Iterator[tuple[CreatableTopic, ...]]:
    """More than one request may create, by partitions and by records, also with invalid and duplicate topics."""
    config = (CreatableTopicConfig(name="retention.ms", value="5"),)
    yield (CreatableTopic(name=f"{name}-a", num_partitions=10_001, replication_factor=1),)
    yield tuple(CreatableTopic(name=f"{name}-{n}", num_partitions=6000, replication_factor=1) for n in range(2))
    yield (CreatableTopic(name=f"{name}-a", num_partitions=9999, replication_factor=1, configs=config),)
    yield tuple(CreatableTopic(name=f"{name}-{n}", num_partitions=1, replication_factor=1) for n in range(5001))
    yield tuple(CreatableTopic(name=f"{name}!{n}", num_partitions=1, replication_factor=1) for n in range(5001))
    yield tuple(CreatableTopic(name=f"{name}-a", num_partitions=6000, replication_factor=1) for _ in range(2))


@script(ApiKey.DELETE_TOPICS)
def _delete_topics(stage: Stage, version: int) -> Iterator[Any]:
    names = (stage.topic(), "not-there")
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=9000)
    if version >= 6:
        by_id = [DeleteTopicState(topic_id=topic_id) for topic_id in (stage.id_of(stage.topic("-by-id")), NO_TOPIC)]
        by_name = [DeleteTopicState(name=name) for name in names]
        request = DeleteTopicsRequest(topics=(*by_id, *by_name), timeout_ms=9000)
    yield _in_order(stage.wire.call(ApiKey.DELETE_TOPICS, version, request).responses)


@script(ApiKey.CREATE_PARTITIONS)
def _create_partitions(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    for name, count in ((topic, 5), (topic, 4), (topic, 5), ("not-there", 3)):
        wanted = (CreatePartitionsTopic(name=name, count=count, assignments=None),)
        yield stage.wire.call(
            ApiKey.CREATE_PARTITIONS, version, CreatePartitionsRequest(topics=wanted, timeout_ms=9000)
        ).results


@script(ApiKey.DESCRIBE_CONFIGS)
def _describe_configs(stage: Stage, version: int) -> Iterator[Any]:
    resources = (
        DescribeConfigsResource(resource_type=TOPIC, resource_name=stage.topic(), configuration_keys=None),
        DescribeConfigsResource(resource_type=TOPIC, resource_name="not-there", configuration_keys=None),
    )
    described = stage.wire.call(
        ApiKey.DESCRIBE_CONFIGS, version, DescribeConfigsRequest(resources=resources, include_synonyms=True)
    )
    for result in described.results:
        yield result.error_code, _in_order([config for config in result.configs if config.name not in OURS])


@script(ApiKey.ALTER_CONFIGS)
def _alter_configs(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    for name, value in (("retention.ms", "5000"), ("retention.ms", "soon"), ("no.such", "1")):
        configs = (AlterableConfig(name=name, value=value),)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=configs)
        yield stage.wire.call(ApiKey.ALTER_CONFIGS, version, AlterConfigsRequest(resources=(resource,))).responses


@script(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def _incremental_alter_configs(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    changes = (
        (0, "retention.ms", "5000"),
        (1, "retention.ms", None),
        (2, "cleanup.policy", "compact"),
        (2, "retention.ms", "1"),
    )
    for operation, name, value in changes:
        configs = (IncrementalConfig(name=name, config_operation=operation, value=value),)
        resource = IncrementalResource(resource_type=TOPIC, resource_name=topic, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        yield stage.wire.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request).responses


@script(ApiKey.DESCRIBE_CLUSTER)
def _describe_cluster(stage: Stage, version: int) -> Iterator[Any]:
    yield stage.wire.call(ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest())
    if version >= 1:
        controllers = DescribeClusterRequest(endpoint_type=2)
        yield stage.wire.call(ApiKey.DESCRIBE_CLUSTER, version, controllers).error_code
    if version >= 2:
        fenced = DescribeClusterRequest(include_fenced_brokers=True)
        yield stage.wire.call(ApiKey.DESCRIBE_CLUSTER, version, fenced)


@script(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def _describe_topic_partitions(stage: Stage, version: int) -> Iterator[Any]:
    topics = (TopicRequest(name=stage.topic(partitions=5)), TopicRequest(name="not-there"))
    for limit in (2000, 3):
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit)
        yield stage.wire.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, version, request)


def _by_group(items: Any) -> list[Any]:
    """Kafka answers group by group in the order of coordinator partitions, which is not specified."""
    return sorted(items, key=lambda item: item.group_id)


def _in_order(items: Any) -> list[Any]:
    return sorted(items, key=lambda item: item.name or "")


def advertised() -> list[tuple[ApiKey, int]]:
    """Every version of Kafka's APIs that is advertised and served; Produce 0 to 2 are only advertised (KAFKA-18659)."""
    return [
        (key, version)
        for key, (first, last) in ADVERTISED.items()
        if key in KAFKA_VERSIONS
        for version in range(3 if key is ApiKey.PRODUCE else first, last + 1)
    ]


def comparable(value: Any, name: str = "") -> Any:
    """A response as plain data; fields that differ by nature are reduced to whether they are set."""
    if name in DIFFERS_BY_NATURE:
        return "set" if value not in (None, "", -1, (), UUID(int=0)) else "not set"
    if isinstance(value, Struct):
        named = {field.name: comparable(getattr(value, field.name), field.name) for field in fields(value)}  # type: ignore[arg-type]
        return {key: inner for key, inner in named.items() if key != "unknown_tagged_fields"}
    if isinstance(value, tuple | list):
        return [comparable(item) for item in value]
    if isinstance(value, memoryview | bytes | bytearray):
        return bytes(value).hex()
    return value
