"""The input and the output of an assignor."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from odradek.coordinator.groups.consumer.member import Partitions

Solution = Mapping[str, Partitions]
"""The partitions of each member id. Every partition that has subscribers is assigned to exactly one of them."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member: the topics that it subscribes to, and its partitions in the last target."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[UUID]
    current: Partitions


@dataclass(frozen=True, slots=True)
class Problem:
    """The members, and the number of partitions of each of their topics."""

    members: tuple[MemberSubscription, ...]
    partition_counts: Mapping[UUID, int]
