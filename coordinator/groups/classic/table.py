"""The classic groups of one shard; operations on classic groups take the table as their first argument."""

from dataclasses import dataclass, field

from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.timers import Timers


@dataclass(slots=True)
class ClassicTable:
    """Classic groups by group id, with the settings that apply to them and the timers of the shard."""

    config: GroupConfig
    timers: Timers
    groups: dict[str, ClassicGroup] = field(default_factory=dict[str, ClassicGroup])

    def cancel_timers(self, group: ClassicGroup) -> None:
        """Cancel every timer of `group` and of its members."""
        for timer in (group.join_timer, group.sync_timer, *group.pending.values()):
            self.timers.cancel(timer)
        for member in group.members.values():
            self.timers.cancel(member.session)
