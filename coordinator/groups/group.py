"""The interface of a group of any protocol, for committed offsets and administration.

Classic and consumer groups implement it, so that the modules for offsets, ListGroups and DeleteGroups do not
distinguish protocols. It follows Kafka's `Group` (`org.apache.kafka.coordinator.group.Group`). No method changes state
that records describe.
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
"""Returns the time, in milliseconds, since which an offset has been unused; its retention counts from then."""


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
        """The topic's id, as looked up by the handler; zero when it is unknown."""
        ...

    @property
    def partitions(self) -> Iterable[CommittedPartition]:
        """The partitions of the topic that are committed."""
        ...


class CommitRequest(Protocol):
    """The common fields of OffsetCommit and TxnOffsetCommit."""

    @property
    def member_id(self) -> str:
        """The member that commits; empty if the request has none."""
        ...

    @property
    def group_instance_id(self) -> str | None:
        """The instance id of a static member (KIP-345)."""
        ...

    @property
    def generation_id_or_member_epoch(self) -> int:
        """The generation or member epoch in the request, -1 if it has none."""
        ...

    @property
    def topics(self) -> Iterable[CommittedTopic]:
        """The topics that are committed."""
        ...


class Group(Protocol):
    """One group of any protocol. The checks return ErrorCode.NONE, or the error of the reply; they raise nothing."""

    @property
    def group_id(self) -> str:
        """The group's id."""
        ...

    def check_offset_commit(self, request: CommitRequest, api_version: int) -> ErrorCode:
        """Check whether an OffsetCommit of this version is allowed; an error applies to all of its partitions."""
        ...

    def check_txn_offset_commit(self, request: CommitRequest) -> ErrorCode:
        """Check whether a TxnOffsetCommit is allowed; an error applies to all of its partitions."""
        ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check whether an OffsetFetch is allowed. Without a member id and with epoch -1 it is an administrator's."""
        ...

    def check_offset_delete(self) -> ErrorCode:
        """Check whether offsets of topics may be deleted for which `is_subscribed_to` is False."""
        ...

    def on_offset_commit(self, member_id: str, timers: Timers, now_ms: int) -> None:
        """Called after an OffsetCommit was allowed: in the classic protocol it counts as a heartbeat."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member reads `topic`, or may read it, as far as the coordinator knows."""
        ...

    def unused_since(self, topic: str) -> UnusedSince | None:
        """Returns from when the retention of the group's offsets in `topic` counts; None while in use (KIP-211)."""
        ...

    def is_empty(self) -> bool:
        """True if the group has no members, so that it may be deleted."""
        ...

    def may_expire(self) -> bool:
        """True if the group may be removed once it has no offsets: empty, and no member is about to join."""
        ...

    def tombstones(self) -> Sequence[ShardRecord]:
        """Returns the records that remove the group, without its offsets, in Kafka's order."""
        ...

    def listed(self) -> ListedGroup:
        """Returns the group's entry for ListGroups."""
        ...


GroupLookup = Callable[[str], Group | None]
"""Returns the group of any protocol with an id; None when there is none."""
