"""The consumer groups of one shard; operations on consumer groups take the table as their first argument."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.groups.config import ConsumerGroupConfig
from odradek.coordinator.groups.consumer.conversion import Conversion
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.resolver import RegexResolver
from odradek.coordinator.groups.consumer.timer_kinds import MEMBER_TIMERS, ConsumerTimer
from odradek.coordinator.metadata.image.image import MetadataImage, TopicImage
from odradek.coordinator.timers import Timer, TimerKind, Timers

NO_METADATA: Final = MetadataImage()


@dataclass(slots=True)
class ConsumerTable:
    """Consumer groups by group id, their settings, and their soft state: timers, and the metadata last used.

    `image` returns the newest published metadata.
    """

    config: ConsumerGroupConfig
    image: Callable[[], MetadataImage]
    timers: Timers
    conversion: Conversion
    resolver: RegexResolver
    groups: dict[str, ConsumerGroup] = field(default_factory=dict[str, ConsumerGroup])
    seen: dict[str, Mapping[str, TopicImage]] = field(default_factory=dict[str, Mapping[str, TopicImage]])
    """The topics with which a group's metadata hash was last computed."""
    matched: dict[str, tuple[Mapping[str, TopicImage], dict[str, frozenset[str]]]] = field(
        default_factory=dict[str, tuple[Mapping[str, TopicImage], dict[str, frozenset[str]]]]
    )
    """The results of a group's resolution of regular expressions that is under way, and the topics matched against."""
    _topics: tuple[Mapping[str, TopicImage], int] = (NO_METADATA.topics_by_name, NO_METADATA.offset)
    _armed: dict[tuple[TimerKind, str, str], Timer] = field(default_factory=dict[tuple[TimerKind, str, str], Timer])

    def topics_version(self) -> int:
        """Returns the offset of the first image read by this shard that has the present topics."""
        image = self.image()
        if image.topics_by_name is not self._topics[0]:
            self._topics = (image.topics_by_name, image.offset)
        return self._topics[1]

    # Settings of one group

    def session_timeout_ms(self, group_id: str) -> int:
        """Returns the session time-out of the group's members, in milliseconds."""
        return self._setting(group_id, "session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Returns the interval of the members' heartbeats, in milliseconds."""
        return self._setting(group_id, "heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        """Returns the minimum time between two target assignments, in milliseconds (KIP-1263)."""
        return self._setting(group_id, "assignment.interval.ms")

    def _setting(self, group_id: str, name: str) -> int:
        """Returns the group's own value within the broker's bounds, or the broker's."""
        field_name = name.replace(".", "_")
        own = self.image().configs_of(ResourceType.GROUP, group_id).get(f"consumer.{name}")
        if own is None:
            return getattr(self.config, f"group_consumer_{field_name}")
        low = getattr(self.config, f"group_consumer_min_{field_name}")
        high = getattr(self.config, f"group_consumer_max_{field_name}")
        return min(max(int(own), low), high)

    # Timers

    def arm(self, kind: TimerKind, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Set a timer to `deadline_ms`, replacing any earlier setting."""
        key = (kind, group_id, member_id)
        timer = self._armed.get(key)
        if timer is None:
            timer = self._armed[key] = Timer(kind, group_id, member_id)
        self.timers.set(timer, deadline_ms)

    def is_armed(self, kind: TimerKind, group_id: str, member_id: str) -> bool:
        """True if the timer is set."""
        return (kind, group_id, member_id) in self._armed

    def disarm(self, kind: TimerKind, group_id: str, member_id: str) -> None:
        """Cancel a timer, if it is set."""
        timer = self._armed.pop((kind, group_id, member_id), None)
        if timer is not None:
            self.timers.cancel(timer)

    def disarm_member(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a member."""
        for kind in MEMBER_TIMERS:
            self.disarm(kind, group_id, member_id)

    def forget(self, group_id: str) -> None:
        """Remove a group, if there is one, and its soft state."""
        group = self.groups.pop(group_id, None)
        self.seen.pop(group_id, None)
        self.matched.pop(group_id, None)
        self.disarm(ConsumerTimer.REGEX, group_id, "")
        for member_id in () if group is None else group.members:
            self.disarm_member(group_id, member_id)
