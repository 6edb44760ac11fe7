"""One member of a consumer group, as records tell it: immutable, changed by `dataclasses.replace`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID

from odradek.coordinator.groups.consumer.member_state import MemberState

Partitions = Mapping[UUID, frozenset[int]]
"""Topic id to partitions."""

Held = Mapping[UUID, Mapping[int, int]]
"""Topic id to partition to the epoch in which it was assigned."""

_NOTHING: Mapping[int, int] = {}


class NamedPartitions(Protocol):
    """A topic's partitions as requests name them."""

    @property
    def topic_id(self) -> UUID:
        """The topic's id."""
        ...

    @property
    def partitions(self) -> tuple[int, ...]:
        """Indexes of partitions."""
        ...


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a member that speaks the classic protocol told in JoinGroup: its favourite protocol first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member; `topics` and `regex` (empty for none) are its subscription, `classic` is None for new consumers."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicSide | None = None
    assigned: Held = field(default_factory=dict[UUID, Mapping[int, int]])
    revoking: Held = field(default_factory=dict[UUID, Mapping[int, int]])

    def is_at(self, target_epoch: int) -> bool:
        """Whether it has all that the target of this epoch grants it."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def at_epoch(self, epoch: int) -> "ConsumerMember":
        """The same in another epoch; the old one is remembered, in case the answer is lost."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch)

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """Since which epoch it holds the partition, also while it gives it up; None when it does not."""
        found = self.assigned.get(topic_id, _NOTHING).get(partition)
        return self.revoking.get(topic_id, _NOTHING).get(partition) if found is None else found

    def held_since(self, epoch: int) -> Held:
        """What it is assigned, as if it had been since `epoch`: whoever takes a static member's place counts anew."""
        return {topic_id: dict.fromkeys(held, epoch) for topic_id, held in self.assigned.items()}

    def owns_no_more_than_assigned(self, owned: Iterable[NamedPartitions] | None) -> bool:
        """Whether what it says that it owns is what it was assigned, or less; it must say."""
        if owned is None:
            return False
        return all(
            partition in self.assigned.get(topic.topic_id, _NOTHING)
            for topic in owned
            for partition in topic.partitions
        )


def still_owns(owned: Iterable[NamedPartitions] | None, held: Held) -> bool:
    """Whether a heartbeat names any of `held` as owned; one that names nothing at all may own everything."""
    if owned is None:
        return True
    return any(partition in held.get(topic.topic_id, _NOTHING) for topic in owned for partition in topic.partitions)
