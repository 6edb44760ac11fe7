"""The committed offsets of one shard; operations on offsets take the table as their first argument."""

from collections.abc import Callable
from dataclasses import dataclass, field

from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.offsets.store import OffsetStore
from odradek.coordinator.groups.offsets.timer_kinds import OffsetTimer
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.timers import Timer, Timers


@dataclass(slots=True)
class OffsetTable:
    """The offsets, their settings, and their timers. `image` returns the newest published metadata."""

    config: GroupConfig
    image: Callable[[], MetadataImage]
    timers: Timers
    store: OffsetStore = field(default_factory=OffsetStore)
    deleted_topics: set[str] = field(default_factory=set[str])
    """Names of deleted topics in which offsets may remain; they are removed in parts. Lost in a restart."""
    retention_timer: Timer = field(default_factory=lambda: Timer(OffsetTimer.RETENTION))
    deletion_timer: Timer = field(default_factory=lambda: Timer(OffsetTimer.TOPICS_DELETED))
