"""A group with the decisions of an operation: every record decided is applied to a copy at once.

So each step of an operation sees what the steps before it decided, by the code that replay uses, and the group itself
changes only in replay.
"""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.replay import apply
from odradek.coordinator.groups.decision import Decision


class Draft:
    """`group` is the group as decided so far. Copied at the first record, since most heartbeats decide nothing."""

    __slots__ = ("_copied", "decision", "group")

    def __init__(self, group: ConsumerGroup, decision: Decision) -> None:
        self.group = group
        self.decision = decision
        self._copied = False

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    @property
    def now_ms(self) -> int:
        """When the operation runs."""
        return self.decision.now_ms

    def write(self, *records: ShardRecord) -> None:
        """Decide `records`, in this order."""
        if records and not self._copied:
            self.group, self._copied = self.group.copy(), True
        for record in records:
            self.decision.record(record)
            apply(self.group, record)
