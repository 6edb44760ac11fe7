"""Generates random group requests by several consumers; `random_group_play` sends them. One seed, one script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Protocol

from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
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
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.schema.codec import encode
from odradek.wire.schema.schema import Message

TIMEOUT_MS: Final = 290_000
WAIT_LIMIT_S: Final = 20.0
PARTITIONS: Final = 3
UNKNOWN: Final = "no-such-member"
VERSIONS: Final[Mapping[str, Mapping[ApiKey, int]]] = {
    "old": {
        ApiKey.JOIN_GROUP: 2,
        ApiKey.SYNC_GROUP: 1,
        ApiKey.HEARTBEAT: 1,
        ApiKey.LEAVE_GROUP: 1,
        ApiKey.OFFSET_COMMIT: 2,
        ApiKey.OFFSET_FETCH: 1,
        ApiKey.DESCRIBE_GROUPS: 1,
        ApiKey.DELETE_GROUPS: 0,
        ApiKey.LIST_GROUPS: 2,
        ApiKey.OFFSET_DELETE: 0,
    },
    "middle": {
        ApiKey.JOIN_GROUP: 5,
        ApiKey.SYNC_GROUP: 3,
        ApiKey.HEARTBEAT: 3,
        ApiKey.LEAVE_GROUP: 3,
        ApiKey.OFFSET_COMMIT: 7,
        ApiKey.OFFSET_FETCH: 7,
        ApiKey.DESCRIBE_GROUPS: 4,
        ApiKey.DELETE_GROUPS: 1,
        ApiKey.LIST_GROUPS: 3,
        ApiKey.OFFSET_DELETE: 0,
    },
    "new": {
        ApiKey.JOIN_GROUP: 9,
        ApiKey.SYNC_GROUP: 5,
        ApiKey.HEARTBEAT: 4,
        ApiKey.LEAVE_GROUP: 5,
        ApiKey.OFFSET_COMMIT: 9,
        ApiKey.OFFSET_FETCH: 9,
        ApiKey.DESCRIBE_GROUPS: 6,
        ApiKey.DELETE_GROUPS: 2,
        ApiKey.LIST_GROUPS: 5,
        ApiKey.OFFSET_DELETE: 0,
    },
}
NOTES: Final = ("", "note", "x" * 4096, "x" * 4097)
"""The metadata of committed offsets; the last is too long."""
STATES: Final = ("Stable", "empty", "PreparingRebalance", "Asleep")
TYPES: Final = ("classic", "Consumer", "share", "none")
PROTOCOLS: Final = (("range",), ("range",), ("range", "sticky"), ("sticky",))


@dataclass(frozen=True)
class Consumer:
    """A consumer that sends requests. Static members have an instance id, and never change their subscription."""

    number: int
    era: str
    instance: str | None

    def version(self, key: ApiKey) -> int:
        return VERSIONS[self.era][key]


@dataclass
class ConsumerState:
    """The state of a consumer according to the answers of one side."""

    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    lead: tuple[str, ...] = ()
    waits_for: ApiKey | None = None
    offered: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """The protocols and topics of a JoinGroup whose answer was lost with its connection: it sends the same again."""


class SideView(Protocol):
    """The view of one side that a step needs to build its request."""

    states: list[ConsumerState]

    def name_of(self, member_id: str) -> str:
        """The name of a member, which is the same on all sides."""
        ...


@dataclass
class Step:
    """A request of one consumer, or (without one) its reconnection."""

    what: str
    consumer: int
    key: ApiKey | None = None
    build: Callable[[SideView], Message] = field(default=lambda _: DescribeGroupsRequest(), repr=False)
    offer: tuple[tuple[str, ...], tuple[str, ...]] | None = None


class Generator:
    """Generates steps, most of which are valid for the state of the consumers."""

    def __init__(self, chance: Random, consumers: list[Consumer], group: str, topic: str) -> None:
        self._chance = chance
        self._consumers = consumers
        self._group, self._topic = group, topic
        self._offset = 0
        self._notes = NOTES

    def next(self, states: list[ConsumerState], *, group_exists: bool) -> Step | None:
        """A step of a consumer that is not waiting, or a reconnection of one that waits; None if there is none.

        A refused commit creates a group in Kafka's memory that has no record, so the first commit is never refused.
        """
        self._notes = NOTES if group_exists else NOTES[:-1]
        consumer = self._chance.choice(self._consumers)
        state = states[consumer.number]
        if state.waits_for is not None:
            may_come_back = state.member_id or consumer.instance  # without a member id it would be another member
            if may_come_back and (self._chance.random() < 0.15 or all(each.waits_for for each in states)):
                return Step("comes back over a new connection", consumer.number)
            return None if all(each.waits_for for each in states) else self.next(states, group_exists=group_exists)
        kinds: dict[Callable[[Consumer, ConsumerState], Step], int] = {
            self._join: 10 if state.generation < 0 else 3,
            self._sync: 10 if state.generation >= 0 else 1,
            self._heartbeat: 5,
            self._leave: 2,
            self._commit: 4,
            self._fetch: 2,
            self._describe: 2,
            self._delete_offsets: 1,
            self._delete_group: 1,
            self._list: 1,
        }
        [kind] = self._chance.choices(list(kinds), list(kinds.values()))
        return kind(consumer, state)

    def _who(self) -> Callable[[ConsumerState], str]:
        """Mostly the consumer's own id."""
        unknown = self._chance.random() < 0.07
        return lambda state: UNKNOWN if unknown else state.member_id

    def _when(self) -> int:
        """The deviation of the generation in a request; mostly 0."""
        return self._chance.choices((0, -1, 1), (14, 1, 1))[0]

    def _join(self, consumer: Consumer, state: ConsumerState) -> Step:
        protocols = PROTOCOLS[0] if consumer.instance else self._chance.choice(PROTOCOLS)
        topics = (self._topic,) if consumer.instance or self._chance.random() < 0.7 else (self._topic, "another")
        kind = "consumer" if self._chance.random() < 0.95 else "connect"
        who, number = self._who(), consumer.number
        if state.offered is not None:
            (protocols, topics), kind = state.offered, "consumer"
        metadata = b"\0\0" + bytes(encode(ConsumerProtocolSubscription(topics=topics), 0))
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=TIMEOUT_MS,
            protocol_type=kind,
            rebalance_timeout_ms=TIMEOUT_MS,
            group_instance_id=consumer.instance,
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols),
        )
        return Step(
            f"joins with {protocols} of {kind} for {topics}",
            number,
            ApiKey.JOIN_GROUP,
            lambda side: replace(request, member_id=who(side.states[number])),
            (protocols, topics),
        )

    def _sync(self, consumer: Consumer, _: ConsumerState) -> Step:
        who, off, number = self._who(), self._when(), consumer.number
        named = consumer.version(ApiKey.SYNC_GROUP) >= 5
        protocol = self._chance.choices((None, "sticky"), (12, 1))[0]

        def build(side: SideView) -> Message:
            state = side.states[number]
            return SyncGroupRequest(
                group_id=self._group,
                generation_id=state.generation + off,
                member_id=who(state),
                group_instance_id=consumer.instance,
                protocol_type="consumer" if named else None,
                protocol_name=(protocol or state.protocol or "range") if named else None,
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=member, assignment=side.name_of(member).encode())
                    for member in state.lead
                ),
            )

        return Step(f"syncs, off by {off}", number, ApiKey.SYNC_GROUP, build)

    def _heartbeat(self, consumer: Consumer, _: ConsumerState) -> Step:
        who, off, number = self._who(), self._when(), consumer.number

        def build(side: SideView) -> Message:
            state = side.states[number]
            return HeartbeatRequest(
                group_id=self._group,
                generation_id=state.generation + off,
                member_id=who(state),
                group_instance_id=consumer.instance,
            )

        return Step(f"heartbeats, off by {off}", number, ApiKey.HEARTBEAT, build)

    def _leave(self, consumer: Consumer, _: ConsumerState) -> Step:
        """Leaves by its id; in batches also removes others by their instances, as an administrator does."""
        who, number = self._who(), consumer.number
        batched = consumer.version(ApiKey.LEAVE_GROUP) >= 3
        statics = [each.instance for each in self._consumers if each.instance]
        removed = self._chance.choice(statics) if statics and self._chance.random() < 0.3 else None

        def build(side: SideView) -> Message:
            member_id = who(side.states[number])
            if not batched:
                return LeaveGroupRequest(group_id=self._group, member_id=member_id)
            members = [MemberIdentity(member_id=member_id, group_instance_id=consumer.instance)]
            if removed is not None:
                members.append(MemberIdentity(group_instance_id=removed))
            return LeaveGroupRequest(group_id=self._group, members=tuple(members))

        return Step(f"leaves, and removes {removed if batched else None}", number, ApiKey.LEAVE_GROUP, build)

    def _commit(self, consumer: Consumer, _: ConsumerState) -> Step:
        self._offset += 1
        number, off, who = consumer.number, self._when(), self._who()
        simple = self._chance.random() < 0.15
        instance = consumer.instance if not simple else None
        part = OffsetCommitRequestPartition(
            partition_index=self._chance.randrange(PARTITIONS + 1),
            committed_offset=self._offset,
            committed_metadata=self._chance.choice(self._notes),
        )
        topic = OffsetCommitRequestTopic(name=self._topic, partitions=(part,))

        def build(side: SideView) -> Message:
            state = side.states[number]
            return OffsetCommitRequest(
                group_id=self._group,
                generation_id_or_member_epoch=-1 if simple else state.generation + off,
                member_id="" if simple else who(state),
                group_instance_id=instance,
                topics=(topic,),
            )

        return Step(f"commits {self._offset}, off by {off}, simple {simple}", number, ApiKey.OFFSET_COMMIT, build)

    def _fetch(self, consumer: Consumer, _: ConsumerState) -> Step:
        version, everything = consumer.version(ApiKey.OFFSET_FETCH), self._chance.random() < 0.5
        indexes = tuple(range(PARTITIONS + 1))
        if version >= 8:
            topics = None if everything else (OffsetFetchRequestTopics(name=self._topic, partition_indexes=indexes),)
            groups = (
                OffsetFetchRequestGroup(group_id=self._group, topics=topics),
                OffsetFetchRequestGroup(group_id=f"{self._group}-unknown", topics=topics),
            )
            request = OffsetFetchRequest(groups=groups, require_stable=self._chance.random() < 0.5)
        else:
            topic = OffsetFetchRequestTopic(name=self._topic, partition_indexes=indexes)
            all_topics = None if everything and version >= 2 else (topic,)
            request = OffsetFetchRequest(group_id=self._group, topics=all_topics)
        return Step("fetches offsets", consumer.number, ApiKey.OFFSET_FETCH, lambda _: request)

    def _describe(self, consumer: Consumer, _: ConsumerState) -> Step:
        request = DescribeGroupsRequest(groups=(self._group, f"{self._group}-unknown"))
        return Step("describes", consumer.number, ApiKey.DESCRIBE_GROUPS, lambda _: request)

    def _list(self, consumer: Consumer, _: ConsumerState) -> Step:
        states = tuple(self._chance.sample(STATES, self._chance.randrange(3)))
        types = tuple(self._chance.sample(TYPES, self._chance.randrange(3)))
        newest = consumer.version(ApiKey.LIST_GROUPS) >= 5
        request = ListGroupsRequest(states_filter=states, types_filter=types) if newest else ListGroupsRequest()
        return Step(f"lists {request}", consumer.number, ApiKey.LIST_GROUPS, lambda _: request)

    def _delete_group(self, consumer: Consumer, _: ConsumerState) -> Step:
        request = DeleteGroupsRequest(groups_names=(self._group,))
        return Step("deletes the group", consumer.number, ApiKey.DELETE_GROUPS, lambda _: request)

    def _delete_offsets(self, consumer: Consumer, _: ConsumerState) -> Step:
        parts = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in range(PARTITIONS))
        topic = OffsetDeleteRequestTopic(name=self._topic, partitions=parts)
        request = OffsetDeleteRequest(group_id=self._group, topics=(topic,))
        return Step("deletes offsets", consumer.number, ApiKey.OFFSET_DELETE, lambda _: request)
