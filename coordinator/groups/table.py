"""All that one shard holds; operations take it as their first argument."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field

from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.consumer.table import NO_METADATA, ConsumerTable
from odradek.coordinator.groups.offsets.store import OffsetStore
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.timers import Timer, TimerKind, Timers


@dataclass(slots=True)
class GroupTable:
    """The groups and offsets of one partition of `__consumer_offsets`, and their timers.

    `image` gives the newest published metadata. A group is either in `groups`, a classic one, or in `consumer.groups`.
    `deleted_topics` are those of which offsets may be left.
    """

    config: GroupConfig
    image: InitVar[Callable[[], MetadataImage]] = lambda: NO_METADATA
    groups: dict[str, ClassicGroup] = field(default_factory=dict[str, ClassicGroup])
    offsets: OffsetStore = field(default_factory=OffsetStore)
    timers: Timers = field(default_factory=Timers)
    consumer: ConsumerTable = field(init=False)
    retention_timer: Timer = field(default_factory=lambda: Timer(TimerKind.RETENTION))
    deleted_topics: set[str] = field(default_factory=set[str])
    deletion_timer: Timer = field(default_factory=lambda: Timer(TimerKind.TOPICS_DELETED))

    def __post_init__(self, image: Callable[[], MetadataImage]) -> None:
        self.consumer = ConsumerTable(self.config.consumer, image, self.timers)

    def cancel_timers(self, group: ClassicGroup) -> None:
        """Let no timer of `group` fire any more."""
        for timer in (group.join_timer, group.sync_timer, *group.pending.values()):
            self.timers.cancel(timer)
        for member in group.members.values():
            self.timers.cancel(member.session)
