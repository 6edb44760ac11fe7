"""The part of `every_version` about the consumer protocol (KIP-848): a group's life, request by request.

Assignments are compared by the number of partitions: which ones a member gets depends on the assignor, and in Kafka on
the members' random ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from compat_tests.every_version import Stage, Wire, script
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.consumer_metadata import decode_assignment, encode_assignment, encode_subscription
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
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
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = 32
JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2


class Group:
    """One consumer group of a stage, whose member ids are set by the script."""

    def __init__(self, stage: Stage, version: int, partitions: int = 4) -> None:
        self.stage, self.version = stage, version
        self.topic = stage.topic("-read", partitions)
        self.topic_id = stage.id_of(self.topic)
        self.has: dict[str, tuple[TopicPartitions, ...]] = {}
        stage.coordinator()
        self._assign_at_once()

    @property
    def wire(self) -> Wire:
        return self.stage.wire

    def _assign_at_once(self) -> None:
        """Otherwise the answers would depend on the duration of the requests."""
        name = "consumer.assignment.interval.ms"
        config = AlterableConfig(name=name, config_operation=0, value="0")
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=self.stage.group, configs=(config,))
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        answered = self.wire.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert answered.responses[0].error_code == 0, answered
        asked = DescribeConfigsResource(resource_type=GROUP, resource_name=self.stage.group, configuration_keys=(name,))

        def is_seen() -> bool:
            described = self.wire.call(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=(asked,)))
            return described.results[0].configs[0].value == "0"

        wait_for(is_seen, "the group's config")

    def beat(self, member: str, epoch: int, **more: Any) -> dict[str, Any]:
        """A heartbeat; `owns` are partitions of the topic."""
        owns = more.pop("owns", None)
        if owns is not None:
            owned = (TopicPartitions(topic_id=self.topic_id, partitions=tuple(owns)),) if owns else ()
            more["topic_partitions"] = owned
        request = ConsumerGroupHeartbeatRequest(
            **{"group_id": self.stage.group, "member_id": member, "member_epoch": epoch, **more}
        )
        answer = self.wire.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, self.version, request)
        if answer.assignment is not None:
            self.has[member] = answer.assignment.topic_partitions
        return {
            "error": ErrorCode(answer.error_code).name,
            "says why": answer.error_message is not None,
            "member": answer.member_id == member if member else bool(answer.member_id),
            "epoch": answer.member_epoch,
            "interval": answer.heartbeat_interval_ms,
            "has": None if answer.assignment is None else len(self.held(member)),
        }

    def held(self, member: str) -> tuple[int, ...]:
        """The last assignment of the member."""
        return tuple(index for topic in self.has.get(member, ()) for index in topic.partitions)

    def join(self, member: str, **more: Any) -> dict[str, Any]:
        wanted = {"rebalance_timeout_ms": 60_000, "owns": (), "subscribed_topic_names": (self.topic,)}
        return self.beat(member, JOIN, **{**wanted, **more})

    def commit(self, member: str, epoch: int, partition: int, version: int = 9, offset: int = 5) -> str:
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.stage.group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            topics=(OffsetCommitRequestTopic(name=self.topic, partitions=(part,)),),
        )
        answer = self.wire.call(ApiKey.OFFSET_COMMIT, version, request)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    def fetch(self, member: str | None, epoch: int, partition: int) -> list[Any]:
        topics = (OffsetFetchRequestTopics(name=self.topic, partition_indexes=(partition,)),)
        asked = OffsetFetchRequestGroup(group_id=self.stage.group, member_id=member, member_epoch=epoch, topics=topics)
        (group,) = self.wire.call(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=(asked,))).groups
        offsets = [part.committed_offset for topic in group.topics for part in topic.partitions]
        return [ErrorCode(group.error_code).name, *offsets]

    def delete_offset(self, topic: str, partition: int) -> list[str]:
        parts = (OffsetDeleteRequestPartition(partition_index=partition),)
        request = OffsetDeleteRequest(
            group_id=self.stage.group, topics=(OffsetDeleteRequestTopic(name=topic, partitions=parts),)
        )
        answer = self.wire.call(ApiKey.OFFSET_DELETE, 0, request)
        codes = [part.error_code for each in answer.topics for part in each.partitions]
        return [ErrorCode(code).name for code in (answer.error_code, *codes)]

    def delete(self) -> str:
        answer = self.wire.call(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=(self.stage.group,)))
        return ErrorCode(answer.results[0].error_code).name

    def listed(self, **filters: Sequence[str]) -> list[tuple[str, str, str]]:
        answer = self.wire.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(**{k: tuple(v) for k, v in filters.items()}))
        return [
            (group.group_state, group.group_type, group.protocol_type)
            for group in answer.groups
            if group.group_id == self.stage.group
        ]

    def described(self) -> dict[str, Any]:
        """The group in ConsumerGroupDescribe, with members by id and assignments by number."""
        (group,) = self.describe((self.stage.group,))
        return {
            "error": ErrorCode(group.error_code).name,
            "group": [group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name],
            "operations": group.authorized_operations,
            "members": {member.member_id: _described(member) for member in group.members},
        }

    def describe(self, groups: Sequence[str]) -> Any:
        request = ConsumerGroupDescribeRequest(group_ids=tuple(groups), include_authorized_operations=True)
        return self.wire.call(ApiKey.CONSUMER_GROUP_DESCRIBE, self.version, request).groups


def _described(member: Any) -> list[Any]:
    return [
        *(member.instance_id, member.rack_id, member.member_epoch, member.client_id),
        *(sorted(member.subscribed_topic_names), member.subscribed_topic_regex, member.member_type),
        *(_count(member.assignment), _count(member.target_assignment)),
    ]


def _count(assignment: Any) -> int:
    return sum(len(topic.partitions) for topic in assignment.topic_partitions)


@script(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def _consumer_group_heartbeat(stage: Stage, version: int) -> Iterator[Any]:
    group = Group(stage, version)
    yield from _refusals(group)
    yield from _two_members(group)
    yield from _static_member(group)
    yield from _migration(Group(Stage(stage.wire, f"{stage.name}-live", stage.node_id), version))


def _refusals(group: Group) -> Iterator[Any]:
    yield group.beat("a", 1)
    yield group.beat("a", LEAVE)
    yield group.join("", **({} if group.version else {"subscribed_topic_names": None}))
    yield group.join("a", group_id="")
    yield group.join("a", instance_id="")
    yield group.join("a", rack_id="")
    yield group.join("a", rebalance_timeout_ms=-1)
    yield group.join("a", owns=None)
    yield group.join("a", owns=(1,))
    yield group.join("a", subscribed_topic_names=None)
    yield group.join("a", server_assignor="sticky")
    yield group.beat("a", -3)
    yield group.beat("a", LEAVE_FOR_A_WHILE)
    yield group.beat("", LEAVE)
    yield group.listed()


def _two_members(group: Group) -> Iterator[Any]:
    first = group.join("a", rack_id="r1")
    old, new = first["epoch"], first["epoch"] + 1
    yield first
    yield group.described()
    yield group.listed(types_filter=["consumer"], states_filter=["STABLE"])
    yield [group.commit("a", old, 0), group.commit("a", old, 0, version=8), group.commit("a", new, 0)]
    yield [group.commit("nobody", old, 0), group.commit("a", 0, 0), group.commit("", -1, 0)]
    yield group.join("b", server_assignor="range")
    yield group.described()
    everything = group.held("a")
    yield group.beat("a", old)
    yield group.beat("a", old, owns=everything)
    yield group.beat("b", new)
    kept, lost = group.held("a")[0], next(index for index in everything if index not in group.held("a"))
    yield [group.commit("a", old, lost), group.commit("a", old, kept)]
    yield group.beat("a", old, owns=group.held("a"))
    yield [group.commit("a", old, lost), group.commit("a", old, kept), group.commit("a", new, lost)]
    yield group.beat("b", new)
    yield group.described()
    asked = ((None, -1, lost), ("a", new, lost), ("a", old, lost), ("x", new, 0))
    yield [group.fetch(*each) for each in asked]
    yield group.beat("a", 9)
    yield group.beat("a", old)
    yield group.beat("a", old, owns=(99,))
    yield group.beat("a", old, owns=group.held("a"))
    yield group.beat("a", new, rebalance_timeout_ms=60_000, owns=group.held("a"), subscribed_topic_names=(group.topic,))
    yield group.join("a")
    yield [group.delete(), group.delete_offset(group.topic, lost), group.delete_offset("no-such-topic", 0)]
    yield group.beat("b", LEAVE)
    yield group.beat("b", new)
    yield group.beat("a", new, owns=group.held("a"))
    yield group.beat("a", LEAVE)
    yield group.described()
    yield [group.listed(), group.commit("", -1, 1), group.delete_offset(group.topic, 1)]
    yield [group.delete(), group.listed(), group.describe((group.stage.group,))[0].error_code]


def _static_member(group: Group) -> Iterator[Any]:
    first = group.join("s1", instance_id="i")
    epoch = first["epoch"]
    yield first
    yield group.join("s2", instance_id="i")
    yield group.join("s1", instance_id="i")
    yield group.beat("s2", epoch, instance_id="i")
    yield group.beat("s2", epoch, instance_id="other")
    yield group.beat("s2", LEAVE_FOR_A_WHILE, instance_id="i")
    yield group.beat("s1", LEAVE_FOR_A_WHILE, instance_id="i")
    yield group.described()
    yield group.join("s2", instance_id="i")
    yield group.beat("s1", epoch, instance_id="i")
    yield group.described()
    yield group.beat("s2", LEAVE, instance_id="i")


class ClassicMember:
    """A member of a group that uses the classic protocol, with its member id and generation."""

    def __init__(self, group: Group) -> None:
        self._group, self._wire = group, group.wire
        self.member_id, self.generation = "", -1

    def join(self) -> list[Any]:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=(self._group.topic,)), 0)
        request = JoinGroupRequest(
            group_id=self._group.stage.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        )
        answer = self._wire.call(ApiKey.JOIN_GROUP, 7, request)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        kind = (answer.protocol_type, answer.protocol_name, bool(answer.leader), len(answer.members))
        return [ErrorCode(answer.error_code).name, answer.generation_id, *kind]

    def sync(self, partitions: Sequence[int] = ()) -> list[Any]:
        named = (ConsumerProtocolAssignmentTopicPartition(topic=self._group.topic, partitions=tuple(partitions)),)
        mine = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named), 0)
        request = SyncGroupRequest(
            group_id=self._group.stage.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncGroupRequestAssignment(member_id=self.member_id, assignment=mine),) if partitions else (),
        )
        answer = self._wire.call(ApiKey.SYNC_GROUP, 5, request)
        error = ErrorCode(answer.error_code).name
        if answer.error_code:
            return [error]
        held = decode_assignment(answer.assignment).assigned_partitions
        return [error, answer.protocol_type, answer.protocol_name, sum(len(topic.partitions) for topic in held)]

    def heartbeat(self, generation: int | None = None) -> str:
        request = HeartbeatRequest(
            group_id=self._group.stage.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
        )
        return ErrorCode(self._wire.call(ApiKey.HEARTBEAT, 4, request).error_code).name

    def leave(self) -> list[str]:
        identity = MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self._group.stage.group, members=(identity,))
        answer = self._wire.call(ApiKey.LEAVE_GROUP, 5, request)
        return [ErrorCode(code).name for code in (answer.error_code, *(each.error_code for each in answer.members))]


def _migration(group: Group) -> Iterator[Any]:
    """A classic group becomes a consumer group with the first new member, and a classic one when that leaves."""
    classic = ClassicMember(group)
    yield [classic.join(), classic.join(), classic.sync(range(4)), classic.heartbeat()]
    yield [group.listed(), group.described()["error"], group.commit(classic.member_id, classic.generation, 0)]
    joined = group.join("n")
    yield [joined, group.listed(), _of_both(group, classic)]
    yield [classic.heartbeat(), classic.heartbeat(9), classic.sync()]
    yield [group.commit(classic.member_id, classic.generation, 0), group.commit(classic.member_id, 9, 0)]
    yield [group.fetch(None, -1, 0), group.fetch(classic.member_id, 9, 0)]
    yield [classic.join(), classic.sync(), classic.heartbeat(), group.beat("n", joined["epoch"]), group.listed()]
    yield _of_both(group, classic)
    second = ClassicMember(group)
    yield [second.join(), second.join(), second.sync(), second.heartbeat(), second.leave(), second.heartbeat()]
    yield group.beat("n", LEAVE)
    yield [group.listed(), group.described()["error"], classic.heartbeat()]
    yield [classic.join(), classic.sync(range(4)), classic.heartbeat(), group.listed(), group.fetch(None, -1, 0)]
    yield [classic.leave(), group.listed()]
    yield [group.join("n2"), group.listed(), group.fetch(None, -1, 0), group.beat("n2", LEAVE), group.listed()]
    yield [classic.join(), group.listed()]


def _of_both(group: Group, classic: ClassicMember) -> dict[str, Any]:
    described = group.described()
    names = {classic.member_id: "classic"}
    return {**described, "members": {names.get(each, each): member for each, member in described["members"].items()}}


@script(ApiKey.CONSUMER_GROUP_DESCRIBE)
def _consumer_group_describe(stage: Stage, version: int) -> Iterator[Any]:
    group = Group(stage, version)
    if version >= 1:
        yield from _regex(group)
    else:
        yield group.join("a", server_assignor="range")
    yield group.described()
    classic = Stage(stage.wire, f"{stage.name}-classic", stage.node_id)
    classic.topic()
    classic.coordinator()
    classic.joined()
    asked = ("", "no-such-group", classic.group)
    yield sorted((each.group_id, each.error_code, each.error_message is None) for each in group.describe(asked))
    for kind in range(5, 7):
        found = stage.wire.call(ApiKey.DESCRIBE_GROUPS, kind, DescribeGroupsRequest(groups=(stage.group,))).groups
        yield [(each.error_code, each.group_state, each.error_message is None) for each in found]


def _regex(group: Group) -> Iterator[Any]:
    """An expression is resolved shortly after the first heartbeat that has it."""
    pattern = f"{group.stage.name}-r.*|nothing"
    for bad in ("[", "a**", "(?=a)", r"\1", "a{1001}"):
        yield group.join("a", subscribed_topic_names=None, subscribed_topic_regex=bad)
    first = group.join("a", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    yield first
    wait_for(lambda: group.beat("a", first["epoch"])["epoch"] != first["epoch"], "the topics that match")
    yield len(group.held("a"))
