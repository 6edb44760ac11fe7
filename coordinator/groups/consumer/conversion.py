"""The interface through which consumer groups convert groups between protocols."""

from collections.abc import Collection
from typing import Protocol

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.decision import Decision


class Conversion(Protocol):
    """Groups of other protocols become consumer groups and the reverse; `groups.migration` implements it."""

    def begin(self, group_id: str, decision: Decision) -> ConsumerGroup:
        """Returns the consumer group for a joining member: a new group, or a converted group of another protocol.

        A conversion adds its records to the decision.

        Raises:
            RefusedError: GROUP_ID_NOT_FOUND, when a group of another protocol has the id and may not be converted.
        """
        ...

    def not_found(self, group_id: str) -> RefusedError:
        """Returns the error GROUP_ID_NOT_FOUND for an id that no consumer group has."""
        ...

    def downgrade(self, group: ConsumerGroup, removed: Collection[str], decision: Decision) -> bool:
        """Convert `group` without the members `removed` to another protocol; returns False if it is not converted."""
        ...
