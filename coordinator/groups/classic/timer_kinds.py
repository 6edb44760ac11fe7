"""The timers of classic groups."""

from enum import auto

from odradek.coordinator.timers import TimerKind


class ClassicTimer(TimerKind):
    """The kinds of timers of a classic group and of its members."""

    SESSION = auto()
    """A member, or a client with a new member id, has sent nothing within its session timeout."""
    JOIN = auto()
    """The join phase ends, with the members that have joined."""
    SYNC = auto()
    """The sync phase ends; the members that have not synced are removed."""
