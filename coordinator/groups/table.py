"""All groups and offsets of one shard: the tables of each protocol, and what they share."""

from collections.abc import Callable, Iterator

from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.consumer.conversion import Conversion
from odradek.coordinator.groups.consumer.resolver import RegexResolver
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.groups.group import Group
from odradek.coordinator.groups.offsets.table import OffsetTable
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.timers import Timers


class GroupTable:
    """The groups and offsets of one partition of `__consumer_offsets`, and their timers.

    `image` returns the newest published metadata. A group id belongs to at most one group: after replay of an
    operation's records it is in one of the tables or in none.
    """

    __slots__ = ("classic", "config", "consumer", "offsets", "timers")

    def __init__(
        self,
        config: GroupConfig,
        image: Callable[[], MetadataImage],
        conversion: Callable[["GroupTable"], Conversion],
        resolver: RegexResolver,
    ) -> None:
        self.config = config
        self.timers = Timers()
        self.offsets = OffsetTable(config, image, self.timers)
        self.classic = ClassicTable(config, self.timers)
        self.consumer = ConsumerTable(config.consumer, image, self.timers, conversion(self), resolver)

    def configure(self, config: GroupConfig) -> None:
        """Use these settings from now on."""
        self.config = self.classic.config = self.offsets.config = config
        self.consumer.config = config.consumer

    def find(self, group_id: str) -> Group | None:
        """Returns the group of any protocol with this id."""
        return self.classic.groups.get(group_id) or self.consumer.groups.get(group_id)

    def each(self) -> Iterator[Group]:
        """Yield every group of any protocol, first the classic ones."""
        yield from self.classic.groups.values()
        yield from self.consumer.groups.values()
