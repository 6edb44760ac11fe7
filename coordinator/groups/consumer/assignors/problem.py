"""What an assignor is asked, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from odradek.coordinator.groups.consumer.member import Partitions

Solution = Mapping[str, Partitions]
"""Member id to what it is to have. Every partition that anyone subscribes to is given to exactly one subscriber."""


@dataclass(frozen=True, slots=True)
class MemberWish:
    """A member: the topics that it subscribes to, and what the last target gave it."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[UUID]
    current: Partitions


@dataclass(frozen=True, slots=True)
class Problem:
    """The members, and how many partitions each of their topics has."""

    members: tuple[MemberWish, ...]
    partition_counts: Mapping[UUID, int]
