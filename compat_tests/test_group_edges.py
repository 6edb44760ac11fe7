"""Requests of administrators, producers and members of the other protocol to a group: both brokers answer the same."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from compat_tests.brokers import SETTINGS, Broker, Odradek
from compat_tests.comparison import Comparison, differences
from compat_tests.every_version import Stage, Wire
from compat_tests.java_clients import JavaVm
from compat_tests.processes import wait_for
from compat_tests.real_kafka import JvmKafka
from odradek.wire.api_keys import ApiKey
from odradek.wire.consumer_metadata import encode_assignment, encode_subscription
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
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
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.long_form import rounds

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")


class Scene:
    """A topic with two partitions, and groups whose names have a common prefix."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire, self.name = wire, name
        self.stage = Stage(wire, name, "1")
        self.stage.coordinator()
        self.topic = self.stage.topic()

    def group(self, what: str) -> str:
        return f"{self.name}-{what}"

    def enter(self, group: str, member: str, instance: str | None = None) -> tuple[str, int]:
        """Joins with the consumer protocol; returns the error and the epoch."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            instance_id=instance,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=(self.topic,),
            topic_partitions=(),
        )
        answer = self.wire.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        return ErrorCode(answer.error_code).name, answer.member_epoch

    def beat(self, group: str, member: str, epoch: int, instance: str | None = None) -> str:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, instance_id=instance
        )
        return ErrorCode(self.wire.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request).error_code).name

    def join(self, group: str, member: str = "", version: int = 9, **more: Any) -> JoinGroupResponse:
        metadata = more.pop("metadata", None)
        if metadata is None:
            metadata = encode_subscription(ConsumerProtocolSubscription(topics=(self.topic,)), 3)
        protocols = tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name in more.pop("protocols", ("range",))
        )
        wanted = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 5_000, "protocol_type": "consumer", **more}
        request = JoinGroupRequest(group_id=group, member_id=member, protocols=protocols, **wanted)
        return self.wire.call(ApiKey.JOIN_GROUP, version, request)

    def classic(self, group: str, user_data: bytes | None = None) -> JoinGroupResponse:
        """A classic member that has both partitions; it leads its group if that is a classic one."""
        joined = self.join(group, version=3)
        parts = (ConsumerProtocolAssignmentTopicPartition(topic=self.topic, partitions=(0, 1)),)
        assigned = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data), 0)
        given = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assigned),)
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=given if joined.leader == joined.member_id else (),
        )
        if not joined.error_code:
            assert self.wire.call(ApiKey.SYNC_GROUP, 3, request).error_code == 0
        return joined

    def evict(self, group: str, *who: tuple[str, str | None], version: int = 5) -> list[Any]:
        """LeaveGroup of (member id, instance id)."""
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=who[0][0])
        else:
            members = tuple(MemberIdentity(member_id=a, group_instance_id=b) for a, b in who)
            request = LeaveGroupRequest(group_id=group, members=members)
        answer = self.wire.call(ApiKey.LEAVE_GROUP, version, request)
        members = [(each.member_id, each.group_instance_id, name_of(each.error_code)) for each in answer.members]
        return [name_of(answer.error_code), *members]

    def listed(self, group: str) -> list[tuple[str, str]]:
        answer = self.wire.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        return [(each.group_type, each.group_state) for each in answer.groups if each.group_id == group]

    def members(self, group: str) -> list[str]:
        request = ConsumerGroupDescribeRequest(group_ids=(group,))
        (found,) = self.wire.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
        return sorted(member.member_id for member in found.members)


def name_of(code: int) -> str:
    """An error's name."""
    return ErrorCode(code).name


SCENARIOS: dict[str, Callable[[Scene], Iterator[Any]]] = {}


def scenario(run: Callable[[Scene], Iterator[Any]]) -> Callable[[Scene], Iterator[Any]]:
    """Registers a scenario under its function's name."""
    SCENARIOS[run.__name__] = run
    return run


@scenario
def evicted_members(scene: Scene) -> Iterator[Any]:
    """LeaveGroup removes members of the consumer protocol by member id, by instance id and by both."""
    group = scene.group("evicted")
    for version in range(6):
        scene.enter(group, "dynamic")
        yield scene.evict(group, ("nobody", None), version=version)
        yield scene.evict(group, ("dynamic", None), version=version)
        yield scene.beat(group, "dynamic", 2), scene.members(group)
    for version in (3, 5):
        scene.enter(group, "static", "i")
        scene.enter(group, "dynamic")
        yield scene.evict(group, ("other", "i"), ("", "none"), ("dynamic", "none"), version=version)
        yield scene.evict(group, ("static", None), ("", "i"), ("dynamic", None), ("dynamic", None), version=version)
        yield scene.members(group), scene.listed(group)
    for named in (("", "i"), ("static", "i"), ("static", None)):
        scene.enter(group, "static", "i")
        scene.beat(group, "static", LEAVE_FOR_A_WHILE, "i")
        yield scene.evict(group, named), scene.members(group)


@scenario
def classic_members_after_an_eviction(scene: Scene) -> Iterator[Any]:
    """When the last member of the consumer protocol is removed, the group is a classic one again."""
    group = scene.group("mixed")
    scene.enter(group, "n")
    scene.classic(group)
    yield scene.listed(group)[0][0]
    yield scene.evict(group, ("n", None))
    yield scene.listed(group)


@scenario
def static_member_changes_while_a_target_is_due(scene: Scene) -> Iterator[Any]:
    """The group becomes a classic one, which rebalances if the consumer group was about to."""
    for others in ((), ("j",)):
        group = scene.group(f"changes-{len(others)}")
        scene.enter(group, "n", "i")
        for instance in others:
            yield name_of(scene.join(group, group_instance_id=instance).error_code)
        answer = scene.join(group, group_instance_id="i")
        yield name_of(answer.error_code), answer.generation_id, scene.listed(group)


@scenario
def commits_of_a_stale_epoch(scene: Scene) -> Iterator[Any]:
    """Plain commits and fetches return STALE_MEMBER_EPOCH, transactions ILLEGAL_GENERATION, which is abortable."""
    group = scene.group("stale")
    _, epoch = scene.enter(group, "n")
    producer = _producer(scene, group)
    for member in ("n", "nobody", ""):
        for stale in (epoch, epoch + 1, epoch - 1, -1):
            for version in (3, 4, 5):
                yield "txn", version, member, stale - epoch, _txn_commit(scene, group, producer, member, stale, version)
            for version in (2, 4, 5, 8, 9):
                yield "commit", version, member, stale - epoch, _commit(scene, group, member, stale, version)
            yield "fetch", member, stale - epoch, _fetch(scene, group, member, stale)


def _producer(scene: Scene, group: str) -> tuple[str, int, int]:
    transactional_id = scene.group("producer")
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=30_000)
    found: list[Any] = []

    def is_there() -> bool:
        scene.wire.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=transactional_id, key_type=1))
        found[:] = [scene.wire.call(ApiKey.INIT_PRODUCER_ID, 4, request)]
        return found[0].error_code == 0

    wait_for(is_there, "a producer id")
    return transactional_id, found[0].producer_id, found[0].producer_epoch


def _txn_commit(
    scene: Scene, group: str, producer: tuple[str, int, int], member: str, epoch: int, version: int
) -> list[str]:
    named = dict(zip(("transactional_id", "producer_id", "producer_epoch"), producer, strict=True))
    if version < 5:
        scene.wire.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest(group_id=group, **named))
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = TxnOffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=(TxnOffsetCommitRequestTopic(name=scene.topic, partitions=(part,)),),
        **named,
    )
    answer = scene.wire.call(ApiKey.TXN_OFFSET_COMMIT, version, request)
    return [name_of(part.error_code) for topic in answer.topics for part in topic.partitions]


def _commit(scene: Scene, group: str, member: str, epoch: int, version: int, retention_ms: int = -1) -> list[str]:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        retention_time_ms=retention_ms,
        topics=(OffsetCommitRequestTopic(name=scene.topic, partitions=(part,)),),
    )
    answer = scene.wire.call(ApiKey.OFFSET_COMMIT, version, request)
    return [name_of(part.error_code) for topic in answer.topics for part in topic.partitions]


def _fetch(scene: Scene, group: str, member: str, epoch: int) -> list[str]:
    topics = (OffsetFetchRequestTopics(name=scene.topic, partition_indexes=(0,)),)
    asked = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=topics)
    answer = scene.wire.call(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=(asked,)))
    return [name_of(each.error_code) for each in answer.groups]


@scenario
def any_retention(scene: Scene) -> Iterator[Any]:
    """OffsetCommit 2 to 4 takes any int64 as its retention."""
    for version in (2, 3, 4):
        for retention_ms in (2**63 - 1, 2**62, 10**15, 0, 1, -2, -(2**63)):
            yield _commit(scene, scene.group(f"retention{version}"), "", -1, version, retention_ms)


@scenario
def offset_delete_asks_the_coordinator(scene: Scene) -> Iterator[Any]:
    """An unknown group is reported before unknown topics."""
    scene.enter(scene.group("there"), "n")
    for group in (scene.group("none"), "", scene.group("there")):
        for topics in (("no-such-topic",), ("no-such-topic", scene.topic), ()):
            parts = (OffsetDeleteRequestPartition(partition_index=0), OffsetDeleteRequestPartition(partition_index=9))
            named = tuple(OffsetDeleteRequestTopic(name=topic, partitions=parts) for topic in topics)
            request = OffsetDeleteRequest(group_id=group, topics=named)
            answer = scene.wire.call(ApiKey.OFFSET_DELETE, 0, request)
            codes = sorted(
                (topic.name, part.partition_index, name_of(part.error_code))
                for topic in answer.topics
                for part in topic.partitions
            )
            yield name_of(answer.error_code), [code for _, _, code in codes]


@scenario
def joins_refused_by_a_consumer_group(scene: Scene) -> Iterator[Any]:
    """A member without an id gets one before its subscription is checked; a refusal contains no id."""
    group = scene.group("live")
    scene.enter(group, "n")
    for version in (3, 5, 9):
        for member in ("", "x"):
            for more in (
                {"metadata": b""},
                {"metadata": b"\0\1\xff"},
                {"protocols": ()},
                {"protocol_type": "connect"},
                {"session_timeout_ms": 1},
            ):
                answer = scene.join(group, member, version, **more)
                member_id = (
                    answer.member_id if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED else bool(answer.member_id)
                )
                yield version, member, name_of(answer.error_code), answer.generation_id, answer.protocol_name, member_id


@scenario
def joins_refused_by_a_classic_group(scene: Scene) -> Iterator[Any]:
    group = scene.group("classic")
    yield name_of(scene.join(group, metadata=b"").error_code)
    scene.join(group, version=3, metadata=b"")
    for member in ("", "x"):
        for more in ({"protocols": ("other",)}, {"protocols": ()}, {"protocol_type": "connect"}, {"protocol_type": ""}):
            answer = scene.join(group, member, **more)
            yield name_of(answer.error_code), answer.member_id


@scenario
def upgrade_with_user_data(scene: Scene) -> Iterator[Any]:
    """A classic group whose assignor writes user data stays one."""
    for user_data in (b"mine", b"", None):
        group = scene.group(f"user-data-{user_data!r}")
        scene.classic(group, user_data)
        yield scene.enter(group, "n"), scene.listed(group)[0][0]


KNOWN = {
    "static_member_changes_while_a_target_is_due": {
        "[0][2][0][1]": ("Stable", "PreparingRebalance"),
        "[2][1]": (0, 3),
    }
}
"""Deliberate differences, with their reasons in docs/differences.md: such a group always rebalances."""


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_answers_are_kafkas(comparison: Comparison, name: str) -> None:
    prefix = f"{name.replace('_', '-')[:40]}-{secrets.token_hex(3)}"
    ours = _observe(comparison.odradek.bootstrap, SCENARIOS[name], prefix)
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    kafkas = _observe(comparison.kafka.bootstrap, SCENARIOS[name], prefix)
    assert dict(differences(kafkas, ours)) == KNOWN.get(name, {}), "each path with (Kafka's, ours)"


def _observe(bootstrap: str, run: Callable[[Scene], Iterator[Any]], prefix: str) -> list[Any]:
    with Wire(bootstrap) as wire:
        return [_plain(step) for step in run(Scene(wire, prefix))]


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


Remove = Callable[[str, str | None], None]
"""Removes the members of a group, or the one with an instance id."""


@contextmanager
def _by_kafka_python(bootstrap: str) -> Generator[Remove]:
    from kafka.admin import KafkaAdminClient, MemberToRemove

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def remove(group: str, instance: str | None) -> None:
        whom = MemberToRemove(member_id="m") if instance is None else MemberToRemove(group_instance_id=instance)
        [result] = admin.remove_group_members(group, [whom]).values()
        assert result.errno == 0, result

    try:
        yield remove
    finally:
        admin.close()


@contextmanager
def _by_java(bootstrap: str) -> Generator[Remove]:
    clients = "org.apache.kafka.clients.admin"
    java = JavaVm()

    def remove(group: str, instance: str | None) -> None:
        options = java.new(f"{clients}.RemoveMembersFromConsumerGroupOptions")  # without members it removes all
        if instance is not None:
            member = java.new(f"{clients}.MemberToRemove", instance)
            options = java.new(f"{clients}.RemoveMembersFromConsumerGroupOptions", [member])
        admin.removeMembersFromConsumerGroup(group, options).all().get()

    try:
        admin = java.admin(bootstrap)
        admin.listConsumerGroups().all().get()  # it is connected
        yield remove
        admin.close()
    finally:
        java.close()


@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.parametrize("client", [_by_java, _by_kafka_python])
def test_clients_remove_members(
    comparison: Comparison, client: Callable[[str], AbstractContextManager[Remove]], instance: str | None
) -> None:
    """An administrator removes a member that hangs, static or not."""
    bootstrap = comparison.odradek.bootstrap
    # A JVM may take longer to start than a session lasts.
    with client(bootstrap) as remove, Wire(bootstrap) as wire:
        scene = Scene(wire, f"remove-{secrets.token_hex(3)}")
        group = scene.group("stuck")
        assert scene.enter(group, "m", instance)[0] == "NONE"
        remove(group, instance)
        assert scene.members(group) == []


# Scenarios that need their own brokers


def before_there_is_a_coordinator(bootstrap: str) -> Iterator[Any]:
    """Without an offsets topic, no group has a coordinator."""
    old = OffsetFetchRequest(group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),))
    one = OffsetFetchRequestGroup(group_id="g", topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),))
    every = OffsetFetchRequestGroup(group_id="g", topics=None)
    with Wire(bootstrap) as wire:
        for version in range(1, 8):
            answer = wire.call(ApiKey.OFFSET_FETCH, version, old)
            parts = [name_of(part.error_code) for topic in answer.topics for part in topic.partitions]
            yield version, name_of(answer.error_code), parts
        for version in (8, 9):
            answer = wire.call(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=(one, every)))
            yield version, [(name_of(group.error_code), len(group.topics)) for group in answer.groups]
        named = (OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),)),)
        for topics in (named, ()):
            answer = wire.call(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id="g", topics=topics))
            yield name_of(answer.error_code), len(answer.topics)


def migrations(bootstrap: str) -> Iterator[Any]:
    """The result of each migration between the protocols under the broker's policy."""
    with Wire(bootstrap) as wire:
        scene = Scene(wire, "policy")
        scene.classic("up")
        yield "classic to consumer", scene.enter("up", "n"), scene.listed("up")[0][0]
        scene.enter("down", "n")
        for version, member in ((9, ""), (9, "x"), (3, "")):
            answer = scene.join("down", member, version)
            yield "classic joins", name_of(answer.error_code), answer.generation_id
        scene.enter("leave", "n")
        scene.classic("leave")
        yield "last one leaves", scene.beat("leave", "n", LEAVE), scene.listed("leave")[0][0]
        scene.enter("evict", "n")
        scene.classic("evict")
        yield "last one is evicted", scene.evict("evict", ("n", None)), scene.listed("evict")[0][0]
        scene.enter("static", "n", "i")
        answer = scene.join("static", group_instance_id="i")
        yield "static one changes", name_of(answer.error_code), scene.listed("static")[0][0]
        left = scene.join("empty", version=3).member_id
        scene.evict("empty", (left, None))
        yield "empty classic", scene.enter("empty", "n"), scene.listed("empty")[0][0]
        scene.beat("empty", "n", LEAVE)
        yield "empty consumer", name_of(scene.join("empty").error_code)
        # Kafka answers MEMBER_ID_REQUIRED before the group's change is committed, and lists the committed state.
        wait_for(lambda: scene.listed("empty")[0][0] == "classic", "the empty group to be a classic one")


@pytest.mark.torture
@pytest.mark.timeout(400)
@pytest.mark.parametrize("policy", POLICIES[: rounds(1, len(POLICIES))])
def test_migration_policies_are_kafkas(comparison: Comparison, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` compares the policy that differs most from the default; the long form compares all four."""
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    monkeypatch.setitem(SETTINGS, "group.consumer.migration.policy", policy)
    kafkas = _observe_alone(JvmKafka)
    assert dict(differences(kafkas, _observe_alone(Odradek))) == {}, "each path with (Kafka's, ours)"


def _observe_alone(start: Callable[[], Broker]) -> list[Any]:
    broker = start()
    try:
        steps = [*before_there_is_a_coordinator(broker.bootstrap), *migrations(broker.bootstrap)]
        return [_plain(step) for step in steps]
    finally:
        broker.stop()
