"""A group with the decisions of an operation: every decided record is applied to a copy at once.

So each step of an operation sees the decisions of the preceding steps, through the code that replay uses, and the group
itself changes only in replay.
"""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.replay import apply
from odradek.coordinator.groups.decision import Decision


class Draft:
    """`group` is the group as decided so far. It is copied at the first record: most heartbeats decide nothing."""

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
        """The time of the operation."""
        return self.decision.now_ms

    def write(self, *records: ShardRecord) -> None:
        """Add `records`, in this order, to the decision."""
        if records and not self._copied:
            self.group, self._copied = self.group.copy(), True
        for record in records:
            self.decision.record(record)
            apply(self.group, record)
