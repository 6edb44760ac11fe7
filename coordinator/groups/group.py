"""The interface of a group of any protocol: what committed offsets and administration need to know about it.

Classic and consumer groups implement it, so that the modules about offsets, ListGroups and DeleteGroups make no
difference between protocols. It follows Kafka's `Group` (`org.apache.kafka.coordinator.group.Group`). No method changes
what records describe.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from uuid import UUID

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.timers import Timers
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_groups import ListedGroup
from odradek.wire.stored.group_records import OffsetCommitValue

UnusedSince = Callable[[OffsetCommitValue], int]
"""From which time, in milliseconds, an offset has been unused; its retention counts from then."""


class CommittedPartition(Protocol):
    """One partition in a request that commits offsets."""

    @property
    def partition_index(self) -> int:
        """The partition's index."""
        ...


class CommittedTopic(Protocol):
    """One topic in a request that commits offsets."""

    @property
    def topic_id(self) -> UUID:
        """The topic's id, as the handler found it; zero when it is unknown."""
        ...

    @property
    def partitions(self) -> Iterable[CommittedPartition]:
        """The partitions of the topic that are committed."""
        ...


class CommitRequest(Protocol):
    """What OffsetCommit and TxnOffsetCommit have in common."""

    @property
    def member_id(self) -> str:
        """The member that commits; empty when the request names none."""
        ...

    @property
    def group_instance_id(self) -> str | None:
        """The instance id of a static member (KIP-345)."""
        ...

    @property
    def generation_id_or_member_epoch(self) -> int:
        """The generation or member epoch that the member believes to be current, or -1."""
        ...

    @property
    def topics(self) -> Iterable[CommittedTopic]:
        """The topics that are committed."""
        ...


class Group(Protocol):
    """One group of any protocol. The checks answer ErrorCode.NONE, or the error to reply with; they raise nothing."""

    @property
    def group_id(self) -> str:
        """The group's id."""
        ...

    def check_offset_commit(self, request: CommitRequest, api_version: int) -> ErrorCode:
        """Whether an OffsetCommit of this version is allowed; an error applies to all of its partitions."""
        ...

    def check_txn_offset_commit(self, request: CommitRequest) -> ErrorCode:
        """Whether a TxnOffsetCommit is allowed; an error applies to all of its partitions."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether an OffsetFetch is allowed. Without a member id and with epoch -1 it is an administrator's."""
        ...

    def check_offset_delete(self) -> ErrorCode:
        """Whether offsets may be deleted, of topics that `is_subscribed_to` denies."""
        ...

    def on_offset_commit(self, member_id: str, timers: Timers, now_ms: int) -> None:
        """Called after an OffsetCommit was allowed: in the classic protocol it counts as a heartbeat."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`, or may read it, as far as the coordinator can tell."""
        ...

    def unused_since(self, topic: str) -> UnusedSince | None:
        """The time from which retention of the group's offsets in `topic` counts; None while in use (KIP-211)."""
        ...

    def is_empty(self) -> bool:
        """Whether the group has no members, so that it may be deleted."""
        ...

    def may_expire(self) -> bool:
        """Whether the group may be removed once it has no offsets: empty, and no member is about to join."""
        ...

    def tombstones(self) -> Sequence[ShardRecord]:
        """The records that remove the group, without its offsets, in Kafka's order."""
        ...

    def listed(self) -> ListedGroup:
        """The group as ListGroups shows it."""
        ...


GroupLookup = Callable[[str], Group | None]
"""Finds the group of any protocol that has an id; None when there is none."""
