"""The timers of committed offsets."""

from enum import auto

from odradek.coordinator.timers import TimerKind


class OffsetTimer(TimerKind):
    """The kinds of timers of a shard's offsets."""

    RETENTION = auto()
    """Offsets and empty groups whose retention has passed must be removed."""
    TOPICS_DELETED = auto()
    """More offsets in deleted topics must be removed."""
