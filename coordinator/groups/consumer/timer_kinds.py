"""The timers of consumer groups."""

from enum import auto
from typing import Final

from odradek.coordinator.timers import TimerKind


class ConsumerTimer(TimerKind):
    """The kinds of timers of a consumer group and of its members."""

    SESSION = auto()
    """A member has sent nothing within its session timeout."""
    REBALANCE = auto()
    """A member has not released its partitions within its rebalance timeout."""
    JOIN = auto()
    """A member of the classic protocol must join again and has not."""
    SYNC = auto()
    """A member of the classic protocol has joined and not synced."""
    REGEX = auto()
    """The regular expressions of a group must be resolved."""


MEMBER_TIMERS: Final = (ConsumerTimer.SESSION, ConsumerTimer.REBALANCE, ConsumerTimer.JOIN, ConsumerTimer.SYNC)
"""The timers of a single member."""
