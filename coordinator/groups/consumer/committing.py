"""Who may commit and fetch offsets in the name of a consumer group (KIP-848, KIP-1251)."""

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.wire.errors import ErrorCode

MEMBER_EPOCH_VERSION = 9
"""From this version OffsetCommit can carry a member epoch; below, new consumers are refused."""


class Committed(Protocol):
    """What commit requests have in common."""

    @property
    def member_id(self) -> str:
        """In whose name; empty if nobody's."""
        ...

    @property
    def group_instance_id(self) -> str | None:
        """The static member's instance id."""
        ...

    @property
    def generation_id_or_member_epoch(self) -> int:
        """The epoch that the member believes to be in, or -1."""
        ...


class CommittedPartition(Protocol):
    """One partition of a commit."""

    @property
    def partition_index(self) -> int:
        """Its index."""
        ...


class CommittedTopic(Protocol):
    """One topic of a commit; `topic_id` is the one that the handler found."""

    @property
    def topic_id(self) -> UUID:
        """The topic's id."""
        ...

    @property
    def partitions(self) -> Iterable[CommittedPartition]:
        """The partitions committed."""
        ...


def check_commit(
    group: ConsumerGroup, request: Committed, topics: Iterable[CommittedTopic], api_version: int
) -> ErrorCode:
    """Whether an OffsetCommit may be; NONE, or the error of all its partitions."""
    if request.generation_id_or_member_epoch < 0 and not group.members:
        return ErrorCode.NONE  # an administrator, or a simple consumer
    member = group.members.get(request.member_id)
    if member is not None and member.classic is None and api_version < MEMBER_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    return _check_epochs(member, request, topics)


def check_transactional_commit(group: ConsumerGroup, request: Committed, topics: Iterable[CommittedTopic]) -> ErrorCode:
    """Whether a TxnOffsetCommit may be; producers that do not say for whom they commit are let pass.

    A stale epoch is ILLEGAL_GENERATION in all versions up to 5: their producers abort the transaction at it, whereas
    STALE_MEMBER_EPOCH would end the producer.
    """
    epoch = request.generation_id_or_member_epoch
    anonymous = epoch == -1 and not request.member_id and request.group_instance_id is None
    if anonymous or (epoch < 0 and not group.members):
        return ErrorCode.NONE
    error = _check_epochs(group.members.get(request.member_id), request, topics)
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def _check_epochs(member: ConsumerMember | None, request: Committed, topics: Iterable[CommittedTopic]) -> ErrorCode:
    """An epoch that has passed will do for what the member has held since that epoch, or longer."""
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    epoch = request.generation_id_or_member_epoch
    if epoch == member.epoch:
        return ErrorCode.NONE
    stale = _stale(member)
    if epoch > member.epoch:
        return stale
    for topic in topics:
        for partition in topic.partitions:
            since = member.assignment_epoch(topic.topic_id, partition.partition_index)
            if since is None or epoch < since:
                return stale
    return ErrorCode.NONE


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Whether an OffsetFetch may be; one that names no member is an administrator's."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
