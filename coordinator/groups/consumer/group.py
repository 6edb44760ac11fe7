"""One consumer group: the state in its records, and what is derived from it. Changed only in replay, or as a draft."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.consumer.member import ConsumerMember, Held, Partitions
from odradek.coordinator.groups.consumer.member_state import ConsumerGroupState
from odradek.coordinator.groups.consumer.records import group_tombstones
from odradek.coordinator.groups.consumer.resolved_regex import ResolvedRegex
from odradek.coordinator.groups.group import CommitRequest, UnusedSince
from odradek.coordinator.timers import Timers
from odradek.wire.consumer_metadata import PROTOCOL_TYPE
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_groups import ListedGroup
from odradek.wire.stored.group_records import OffsetCommitValue

FIRST_EPOCH: Final = 1
"""The epoch of a new group and of its target; a member's first epoch is 2."""

GROUP_TYPE: Final = "consumer"
"""The type of these groups in ListGroups (KIP-848)."""

MEMBER_EPOCH_VERSION: Final = 9
"""From this version on OffsetCommit can carry a member epoch; below, members of the consumer protocol are refused."""

Owners = dict[tuple[UUID, int], str]


class ConsumerGroup:
    """The state of one group. Dictionaries keep the order of the log, so that runs are reproducible."""

    __slots__ = (
        "empty_since_ms",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "static_members",
        "target",
        "target_epoch",
        "target_timestamp_ms",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.empty_since_ms = 0
        """When the last member left. No record has it: after loading, it is the time of loading."""
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """The hash of the topics subscribed to when the epoch was last raised."""
        self.has_partition_metadata = False
        """True if the log has a record of Kafka 4.0 that later versions replace by the hash."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """The member id by instance id."""
        self.owners: Owners = {}
        """The member that holds a partition, as assigned or as revoking, by (topic id, partition)."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.target: dict[str, Partitions] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0

    def copy(self) -> "ConsumerGroup":
        """Returns a copy whose changes do not affect this group."""
        draft = ConsumerGroup(self.group_id)
        draft.empty_since_ms = self.empty_since_ms
        draft.epoch, draft.metadata_hash = self.epoch, self.metadata_hash
        draft.has_partition_metadata = self.has_partition_metadata
        draft.members, draft.static_members = dict(self.members), dict(self.static_members)
        draft.owners, draft.regexes, draft.target = dict(self.owners), dict(self.regexes), dict(self.target)
        draft.target_epoch, draft.target_timestamp_ms = self.target_epoch, self.target_timestamp_ms
        return draft

    # Members

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace its earlier state."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._release_partitions(old)
            if old.instance_id != member.instance_id:
                self._release_instance_id(old)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for partition in _partitions_of(member.assigned):
            self.owners[partition] = member.member_id
        for partition in _partitions_of(member.revoking):
            self.owners[partition] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is one."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release_partitions(member)
        self._release_instance_id(member)

    def _release_instance_id(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _release_partitions(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for partition in _partitions_of(held):
                if self.owners.get(partition) == member.member_id:
                    del self.owners[partition]

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Returns the member with an instance id, None when there is none."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def supports_classic(self, protocol_type: str, names: list[str]) -> bool:
        """True if a classic member with these protocols may join: all classic members must support one of them."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if not self.members:
            return bool(names)
        others = [member.classic.protocols for member in self.members.values() if member.classic is not None]
        return any(all(any(each == name for each, _ in protocols) for protocols in others) for name in names)

    # Derived state

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state, as in tools."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        settled = all(member.is_at(self.target_epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if settled else ConsumerGroupState.RECONCILING

    def regex_users(self, regex: str) -> int:
        """Returns the number of members that subscribe with `regex`."""
        return sum(member.regex == regex for member in self.members.values())

    def subscribed_regexes(self) -> list[str]:
        """Returns the regular expressions in use, each once."""
        return list(dict.fromkeys(member.regex for member in self.members.values() if member.regex))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Returns the topics that a member subscribes to, by name and by regular expression if it is resolved."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        """Returns the topics that any member subscribes to."""
        return frozenset[str]().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """True if any member subscribes to `topic`."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def preferred_assignor(self, default: str) -> str:
        """Returns the server-side assignor that most members request; `default` if none does."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return max(votes, key=votes.__getitem__, default=default)

    def is_waiting(self, member: ConsumerMember) -> bool:
        """True if another member still holds a partition that the target assigns to `member`."""
        return any(
            self.owners.get((topic_id, partition), member.member_id) != member.member_id
            for topic_id, partitions in self.target.get(member.member_id, {}).items()
            for partition in partitions
        )

    # Offsets and administration, see `groups.group.Group`

    def check_offset_commit(self, request: CommitRequest, api_version: int) -> ErrorCode:
        """Check an OffsetCommit: allowed for a member in its epoch, and for any client while the group is empty."""
        if request.generation_id_or_member_epoch < 0 and self.is_empty():
            return ErrorCode.NONE  # an administrator, or a consumer that assigns its partitions itself
        member = self.members.get(request.member_id)
        if member is not None and member.classic is None and api_version < MEMBER_EPOCH_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        return _check_epoch(member, request)

    def check_txn_offset_commit(self, request: CommitRequest) -> ErrorCode:
        """Check a TxnOffsetCommit. Without a member it is allowed; the producer's epoch fences it.

        A stale epoch gives ILLEGAL_GENERATION in all versions up to 5, on which the producer aborts the transaction;
        the error STALE_MEMBER_EPOCH would be fatal to the producer.
        """
        epoch = request.generation_id_or_member_epoch
        names_no_member = epoch == -1 and not request.member_id and request.group_instance_id is None
        if names_no_member or (epoch < 0 and self.is_empty()):
            return ErrorCode.NONE
        error = _check_epoch(self.members.get(request.member_id), request)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check an OffsetFetch: allowed for a member in its current epoch, and for an administrator."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.epoch else _stale(member)

    def check_offset_delete(self) -> ErrorCode:
        """Always allowed: the subscriptions of all members are known."""
        return ErrorCode.NONE

    def on_offset_commit(self, member_id: str, timers: Timers, now_ms: int) -> None:
        """Change nothing: only heartbeats extend a session of the consumer protocol."""

    def unused_since(self, topic: str) -> UnusedSince | None:
        """The retention counts from the commit, in topics that no member subscribes to.

        In an empty group it counts from when the group became empty, if that was later, as in classic groups.
        """
        if self.is_empty():
            return lambda value: max(value.commit_timestamp, self.empty_since_ms)
        return None if self.is_subscribed_to(topic) else _commit_time

    def is_empty(self) -> bool:
        """True if the group has no members."""
        return not self.members

    def may_expire(self) -> bool:
        """True if the group has no members."""
        return not self.members

    def tombstones(self) -> Sequence[ShardRecord]:
        """Returns the records that remove the group and everything in it."""
        return group_tombstones(self.group_id, self.members, self.regexes)

    def listed(self) -> ListedGroup:
        """Returns the group's entry for ListGroups."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=PROTOCOL_TYPE,
            group_state=self.state.value,
            group_type=GROUP_TYPE,
        )


def _check_epoch(member: ConsumerMember | None, request: CommitRequest) -> ErrorCode:
    """Returns NONE in the member's epoch, and in an older one for partitions that it has held since then (KIP-1251)."""
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    epoch = request.generation_id_or_member_epoch
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch:
        return _stale(member)
    for topic in request.topics:
        for partition in topic.partitions:
            since = member.assignment_epoch(topic.topic_id, partition.partition_index)
            if since is None or epoch < since:
                return _stale(member)
    return ErrorCode.NONE


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _commit_time(value: OffsetCommitValue) -> int:
    return value.commit_timestamp


def _partitions_of(held: Held) -> Iterator[tuple[UUID, int]]:
    for topic_id, partitions in held.items():
        for partition in partitions:
            yield topic_id, partition
