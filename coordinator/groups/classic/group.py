"""One classic group: its last durable generation and the soft working copy of the next one.

`stored` is the state in the log and changes only in replay. All other attributes are the working copy: equal to
`stored` while the group is Stable or Empty, ahead of it during a rebalance, and lost in a restart (see `states`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.coordinator.contract import ShardRecord, Token
from odradek.coordinator.groups.classic.consumer_protocol import MalformedSubscription, subscribed_topics
from odradek.coordinator.groups.classic.records import group_tombstone
from odradek.coordinator.groups.classic.states import REBALANCEABLE, TRANSITIONS, GroupState
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.group import CommitRequest, UnusedSince
from odradek.coordinator.timers import Timer, Timers
from odradek.wire.consumer_metadata import PROTOCOL_TYPE
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_groups import ListedGroup
from odradek.wire.stored.group_records import GroupMetadataValue, OffsetCommitValue

GROUP_TYPE = "classic"
"""The type of these groups in ListGroups (KIP-848)."""

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member supports, the preferred one first: (protocol name, the member's metadata for it)."""


class JoinWaiter(NamedTuple):
    """A JoinGroup whose reply is held until the join phase ends. The version determines the form of a refusal."""

    token: Token
    api_version: int


@dataclass(slots=True, eq=False)
class Member:
    """One member. `session` is its session timer; `is_new` is True until its first join phase ends."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    session: Timer
    assignment: bytes = b""
    """The assignment in the current generation, empty if that was abandoned before the leader has sent one."""
    last_assignment: bytes = b""
    """The assignment in the last finished generation: members of the cooperative protocol keep its partitions."""
    is_new: bool = False

    def assign(self, assignment: bytes) -> None:
        """Set the assignment of a generation that is finished."""
        self.assignment = self.last_assignment = assignment

    def metadata(self, protocol: str | None) -> bytes:
        """Returns the member's metadata for `protocol`, empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


class ClassicGroup:
    """The state of one group; `rebalance`, `join`, `sync` and `leave` change it.

    Dictionaries keep the order of arrival, so that the same requests result in the same leader and the same records.
    """

    __slots__ = (
        "delay_ms",
        "generation",
        "group_id",
        "initial_rebalance",
        "join_timer",
        "joining",
        "leader",
        "members",
        "new_member_added",
        "pending",
        "protocol",
        "protocol_type",
        "remaining_delay_ms",
        "state",
        "state_since_ms",
        "static_members",
        "stored",
        "subscribed_topics",
        "supporters",
        "sync_timer",
        "syncing",
        "unsynced",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.stored: GroupMetadataValue | None = None
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """The member id by group instance id (KIP-345)."""
        self.pending: dict[str, Timer] = {}
        """Member ids returned with MEMBER_ID_REQUIRED, with which no member has joined yet (KIP-394)."""
        self.joining: dict[str, JoinWaiter] = {}
        self.syncing: dict[str, Token] = {}
        self.unsynced: dict[str, None] = {}
        """Members that have not sent SyncGroup in this generation."""
        self.supporters: dict[str, int] = {}
        """The number of members that support a protocol, by its name."""
        self.subscribed_topics: frozenset[str] | None = None
        """Topics that any member subscribes to; None if unknown, as with protocol types other than the consumer's."""
        self.join_timer = Timer(ClassicTimer.JOIN, group_id)
        self.sync_timer = Timer(ClassicTimer.SYNC, group_id)
        self.initial_rebalance = False
        """True if the current or last join phase began in an empty group: such a phase is delayed (KIP-134)."""
        self.new_member_added = False
        """True if a member has joined since the delay began or was last extended."""
        self.delay_ms = 0
        """The length of the delay, or of its last extension."""
        self.remaining_delay_ms = 0
        """By how much the delay may still be extended."""

    # State

    def become(self, state: GroupState, now_ms: int) -> None:
        """Change to `state`, which the transition table must allow."""
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} to {state}"
        self.state = state
        self.state_since_ms = now_ms

    def can_rebalance(self) -> bool:
        """True if a new rebalance can begin now."""
        return self.state in REBALANCEABLE

    def is_consumer_group(self) -> bool:
        """True if the protocol type is that of Kafka's consumers."""
        return self.protocol_type == PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member subscribes to `topic`; unknown subscriptions of consumers count as all topics."""
        if self.subscribed_topics is None:
            return self.is_consumer_group()
        return topic in self.subscribed_topics

    # Members

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Returns NONE for a member of the group, else UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID (KIP-345)."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: Member) -> None:
        """Add `member`; the first one becomes the leader."""
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count_protocols(member.protocols, 1)

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is one, and its held requests. The oldest member replaces a removed leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member.protocols, -1)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        self.joining.pop(member_id, None)
        self.syncing.pop(member_id, None)
        self.unsynced.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old_member_id: str, member: Member) -> None:
        """Replace a static member by `member`, which has the same instance id and protocols."""
        assert member.group_instance_id is not None, f"{member.member_id} is not static"
        del self.members[old_member_id]
        self.members[member.member_id] = member
        self.static_members[member.group_instance_id] = member.member_id
        if self.leader == old_member_id:
            self.leader = member.member_id
        if old_member_id in self.unsynced:
            del self.unsynced[old_member_id]
            self.unsynced[member.member_id] = None

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace the protocols of `member`."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)

    def has_all_joined(self) -> bool:
        """True if every member has joined, and no returned member id is still pending."""
        return len(self.members) == len(self.joining) and not self.pending

    def rebalance_timeout_ms(self) -> int:
        """Returns the longest rebalance time-out of the members, in milliseconds; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else elect the first member that has joined; returns False if none has."""
        if self.leader in self.joining:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.joining), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a member with these protocols may join: all members must support at least one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        member_count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supporters.get(name, 0) == member_count for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Returns the protocol with the most votes of those that all members support; in a tie, the leader's choice."""
        assert self.leader is not None, f"{self.group_id} has no leader"
        member_count = len(self.members)
        votes = {name: 0 for name, _ in self.members[self.leader].protocols if self.supporters[name] == member_count}
        for member in self.members.values():
            preferred = next(name for name, _ in member.protocols if name in votes)
            votes[preferred] += 1
        return max(votes, key=votes.__getitem__)

    def read_subscriptions(self) -> None:
        """Read the subscribed topics from the members' metadata."""
        self.subscribed_topics = None
        if self.is_consumer_group():
            self.subscribed_topics = _union_of_topics({m.metadata(self.protocol) for m in self.members.values()})

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        for name, _ in protocols:
            self.supporters[name] = self.supporters.get(name, 0) + change

    # Offsets and administration, see `groups.group.Group`

    def check_offset_commit(self, request: CommitRequest, api_version: int) -> ErrorCode:
        """Check an OffsetCommit: allowed for a member in its generation, and for any client if the group is empty."""
        generation = request.generation_id_or_member_epoch
        if generation < 0 and self.is_empty():
            return ErrorCode.NONE  # an administrator, or a consumer that assigns its partitions itself
        error = self._check_generation(request)
        if not error and self.state is GroupState.COMPLETING_REBALANCE:
            # The member has the new generation but not yet its partitions, so it cannot know which offsets it may
            # commit.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def check_txn_offset_commit(self, request: CommitRequest) -> ErrorCode:
        """Check a TxnOffsetCommit. Before version 3 the request has no member id; the producer's epoch fences it.

        Unlike OffsetCommit it is allowed while members wait for their assignment.
        """
        generation = request.generation_id_or_member_epoch
        names_a_member = generation >= 0 or request.member_id or request.group_instance_id is not None
        if not names_a_member or (generation < 0 and self.is_empty()):
            return ErrorCode.NONE
        return self._check_generation(request)

    def _check_generation(self, request: CommitRequest) -> ErrorCode:
        error = self.check_member(request.member_id, request.group_instance_id)
        if not error and request.generation_id_or_member_epoch != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Always allowed: the OffsetFetch for a classic group has no member id."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        """Allowed while the group is empty, or if the subscriptions of its members are known."""
        return ErrorCode.NONE if self.is_empty() or self.is_consumer_group() else ErrorCode.NON_EMPTY_GROUP

    def on_offset_commit(self, member_id: str, timers: Timers, now_ms: int) -> None:
        """An OffsetCommit counts as a heartbeat of its member."""
        member = self.members.get(member_id)
        if member is not None:
            timers.set(member.session, now_ms + member.session_timeout_ms)

    def unused_since(self, topic: str) -> UnusedSince | None:
        """Returns a function from a commit in `topic` to the start of its retention; None while the topic is in use.

        Without a protocol type (a consumer that assigns its partitions itself): from the commit. While the group is
        empty: from when it became empty. In a stable group of consumers, if no member reads the topic: from the commit.
        """
        if self.protocol_type is None:
            return _commit_time
        if self.is_empty():
            return lambda _: self.state_since_ms
        known = self.is_consumer_group() and self.subscribed_topics is not None
        if self.state is GroupState.STABLE and known and not self.is_subscribed_to(topic):
            return _commit_time
        return None

    def is_empty(self) -> bool:
        """True if the group is in the state Empty."""
        return self.state is GroupState.EMPTY

    def may_expire(self) -> bool:
        """True if the group is empty and no client has a new member id with which it may still join."""
        return self.is_empty() and not self.pending

    def tombstones(self) -> Sequence[ShardRecord]:
        """Returns the record that removes the group."""
        return (group_tombstone(self.group_id),)

    def listed(self) -> ListedGroup:
        """Returns the group's entry for ListGroups."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state.value,
            group_type=GROUP_TYPE,
        )


def _commit_time(value: OffsetCommitValue) -> int:
    return value.commit_timestamp


def _union_of_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    try:
        return frozenset(topic for metadata in subscriptions for topic in subscribed_topics(metadata))
    except MalformedSubscription:
        # Other clients may write any bytes there. With unknown topics fewer offsets are deleted and expired.
        return None
