"""The timers of committed offsets."""

from enum import auto

from odradek.coordinator.timers import TimerKind


class OffsetTimer(TimerKind):
    """What a timer of a shard's offsets is for."""

    RETENTION = auto()
    """Offsets and empty groups whose retention has passed are to be removed."""
    TOPICS_DELETED = auto()
    """More offsets in deleted topics are to be removed."""
