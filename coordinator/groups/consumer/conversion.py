"""What consumer groups need from the rest of the shard where a group changes between protocols."""

from collections.abc import Collection
from typing import Protocol

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.decision import Decision


class Conversion(Protocol):
    """Groups of other protocols become consumer groups and the reverse; `groups.migration` implements it."""

    def begin(self, group_id: str, decision: Decision) -> ConsumerGroup:
        """The consumer group for a joining member without one: a new group, or a converted group of another protocol.

        A conversion adds its records to the decision.

        Raises:
            RefusedError: GROUP_ID_NOT_FOUND, when a group of another protocol has the id and may not be converted.
        """
        ...

    def not_found(self, group_id: str) -> RefusedError:
        """The error GROUP_ID_NOT_FOUND for an id that no consumer group has."""
        ...

    def downgrade(self, group: ConsumerGroup, removed: Collection[str], decision: Decision) -> bool:
        """Decide that `group` without the members `removed` becomes a group of another protocol; False if it stays."""
        ...
