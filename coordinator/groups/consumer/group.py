"""One consumer group: what its records say, and what follows from it. Changed in replay alone, or as a draft."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from odradek.coordinator.groups.consumer.member import ConsumerMember, Held, Partitions
from odradek.coordinator.groups.consumer.member_state import ConsumerGroupState

FIRST_EPOCH: Final = 1
"""Of a group that nothing is known of yet, and of its target: the first real ones are 2."""

Owners = dict[tuple[UUID, int], str]


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched at `timestamp_ms`, under metadata of that `version`."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    """The state of one group. Dictionaries keep the order of the log, so that runs repeat exactly."""

    __slots__ = (
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
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """Of the topics subscribed to, as they were when the epoch was last raised."""
        self.has_partition_metadata = False
        """Whether a record of Kafka 4.0 stands in the log that later versions replace by the hash."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.owners: Owners = {}
        """Who holds a partition, as assigned or as revoking."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.target: dict[str, Partitions] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0

    def copy(self) -> "ConsumerGroup":
        """A draft: whoever changes it does not change this one."""
        draft = ConsumerGroup(self.group_id)
        draft.epoch, draft.metadata_hash = self.epoch, self.metadata_hash
        draft.has_partition_metadata = self.has_partition_metadata
        draft.members, draft.static_members = dict(self.members), dict(self.static_members)
        draft.owners, draft.regexes, draft.target = dict(self.owners), dict(self.regexes), dict(self.target)
        draft.target_epoch, draft.target_timestamp_ms = self.target_epoch, self.target_timestamp_ms
        return draft

    # Members

    def put(self, member: ConsumerMember) -> None:
        """Take in a member, or what has changed about it."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._disown(old)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for place in _places(member.assigned):
            self.owners[place] = member.member_id
        for place in _places(member.revoking):
            self.owners[place] = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member, if it is one."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._disown(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _disown(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for place in _places(held):
                if self.owners.get(place) == member.member_id:
                    del self.owners[place]

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member that an instance id stands for now."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def classic_members(self) -> list[ConsumerMember]:
        """Those that speak the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    def supports_classic(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a classic member that speaks these can take part: with one that all other classic members speak."""
        if protocol_type != "consumer":
            return False
        if not self.members:
            return bool(names)
        speakers = [member.classic.protocols for member in self.members.values() if member.classic is not None]
        return any(all(any(each == name for each, _ in spoken) for spoken in speakers) for name in names)

    # What follows

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state, as tools show it."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        settled = all(member.is_at(self.target_epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if settled else ConsumerGroupState.RECONCILING

    def regex_users(self, regex: str) -> int:
        """How many members subscribe with `regex`."""
        return sum(member.regex == regex for member in self.members.values())

    def subscribed_regexes(self) -> list[str]:
        """The regular expressions in use, each once."""
        return list(dict.fromkeys(member.regex for member in self.members.values() if member.regex))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to, by name and by regular expression as far as it is resolved."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        """The topics that any member subscribes to."""
        return frozenset[str]().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to `topic`."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def preferred_assignor(self, default: str) -> str:
        """The server-side assignor that most members ask for; `default` when nobody does."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return max(votes, key=votes.__getitem__, default=default)

    def is_waiting(self, member: ConsumerMember) -> bool:
        """Whether somebody else still holds a partition that the target grants to `member`."""
        return any(
            self.owners.get((topic_id, partition), member.member_id) != member.member_id
            for topic_id, partitions in self.target.get(member.member_id, {}).items()
            for partition in partitions
        )


def _places(held: Held) -> Iterator[tuple[UUID, int]]:
    for topic_id, partitions in held.items():
        for partition in partitions:
            yield topic_id, partition
