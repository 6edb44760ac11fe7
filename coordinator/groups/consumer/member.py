"""One member of a consumer group, as in its records: immutable, changed by `dataclasses.replace`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID

from odradek.coordinator.groups.consumer.member_state import MemberState

Partitions = Mapping[UUID, frozenset[int]]
"""The partitions by topic id."""

Held = Mapping[UUID, Mapping[int, int]]
"""By topic id and partition, the epoch in which it was assigned."""

_NOTHING: Mapping[int, int] = {}


class NamedPartitions(Protocol):
    """A topic's partitions in a request."""

    @property
    def topic_id(self) -> UUID:
        """The topic's id."""
        ...

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partition indexes."""
        ...


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """The JoinGroup of a member that uses the classic protocol; `protocols` has the preferred one first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member. `topics` and `regex` (empty for none) are its subscription; `classic` is None for consumer members."""

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
        """True if the member has all partitions that the target of this epoch assigns to it."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def at_epoch(self, epoch: int) -> "ConsumerMember":
        """Returns the member in another epoch; the current one becomes the previous, in case the response is lost."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch)

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """Returns the epoch since which it holds the partition, even if revoking it; None if it does not hold it."""
        found = self.assigned.get(topic_id, _NOTHING).get(partition)
        return self.revoking.get(topic_id, _NOTHING).get(partition) if found is None else found

    def held_since(self, epoch: int) -> Held:
        """Returns its assigned partitions, held since `epoch`: for a member that replaces it as a static member."""
        return {topic_id: dict.fromkeys(held, epoch) for topic_id, held in self.assigned.items()}

    def owns_no_more_than_assigned(self, owned: Iterable[NamedPartitions] | None) -> bool:
        """True if all partitions in `owned` are assigned to it; False for None."""
        if owned is None:
            return False
        return all(
            partition in self.assigned.get(topic.topic_id, _NOTHING)
            for topic in owned
            for partition in topic.partitions
        )


def still_owns(owned: Iterable[NamedPartitions] | None, held: Held) -> bool:
    """True if any partition of `held` is in `owned`; also for None, since the member may still own all of them."""
    if owned is None:
        return True
    return any(partition in held.get(topic.topic_id, _NOTHING) for topic in owned for partition in topic.partitions)
