"""Conversion of groups between protocols: `GroupConversion` implements the interface of the consumer groups.

A classic group with members becomes a consumer group with the first member that sends ConsumerGroupHeartbeat; its
classic members stay. It becomes a classic group again when the last member of the consumer protocol has left and
classic ones remain. An empty group of either protocol is replaced by a group of the other. The config
`group.consumer.migration.policy` may forbid either conversion of groups with members.
"""

from collections.abc import Collection

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.groups.classic.records import group_tombstone
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.decision import Decision
from odradek.coordinator.groups.migration.downgrade import can_downgrade, downgrade
from odradek.coordinator.groups.migration.upgrade import not_found, upgrade
from odradek.coordinator.groups.table import GroupTable


class GroupConversion:
    """Implements `groups.consumer.conversion.Conversion` for the groups of one table."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    def begin(self, group_id: str, decision: Decision) -> ConsumerGroup:
        """See `Conversion.begin`."""
        classic = self._table.classic.groups.get(group_id)
        if classic is None:
            return ConsumerGroup(group_id)
        if not classic.is_empty():
            return upgrade(self._table, classic, decision)
        if classic.stored is not None:  # otherwise it has offsets only, and no record of its own
            decision.record(group_tombstone(group_id))
        return ConsumerGroup(group_id)

    def not_found(self, group_id: str) -> RefusedError:
        """See `Conversion.not_found`."""
        return not_found(self._table, group_id)

    def downgrade(self, group: ConsumerGroup, removed: Collection[str], decision: Decision) -> bool:
        """See `Conversion.downgrade`."""
        if not can_downgrade(self._table, group, removed):
            return False
        downgrade(self._table, group, removed, decision)
        return True
