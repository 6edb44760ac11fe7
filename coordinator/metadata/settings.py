"""The shard's configuration, and a broker's configs under an image."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from uuid import UUID

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.configs.layers import BrokerLayers
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.sessions import BrokerSessions
from odradek.wire.values import immutable


@immutable
class MetadataConfig:
    """The broker's id and its static configs as text, under Kafka's names.

    `fences_itself`: whether it judges the silence of its own broker as that of others.
    """

    node_id: int
    static: Mapping[str, str]
    fences_itself: bool = True


class CurrentLayers:
    """A broker's configs in all layers, computed again only when the dynamic configs of the image change."""

    def __init__(self, config: MetadataConfig) -> None:
        self._config = config
        self._layers = BrokerLayers(config.static)

    def under(self, image: MetadataImage) -> BrokerLayers:
        """The configs under `image`."""
        default = image.configs_of(ResourceType.BROKER, "")
        own = image.configs_of(ResourceType.BROKER, str(self._config.node_id))
        layers = self._layers
        if layers.dynamic_default != default or layers.dynamic_broker != own:
            layers = self._layers = BrokerLayers(self._config.static, default, own)
        return layers


@immutable
class DecisionContext:
    """The input of a decision besides its request: the metadata, and the configs of the broker that decides.

    `next_offset` is where the first record that it writes goes in the metadata log, `topic_ids` are ids for new topics,
    `now_ms` is the time of `sessions`, the soft state of brokers; functions that only describe need none of them.
    """

    image: MetadataImage
    layers: BrokerLayers
    node_id: int
    next_offset: int = -1
    topic_ids: Iterator[UUID] = field(default_factory=lambda: iter(()))
    now_ms: int = 0
    sessions: BrokerSessions = field(default_factory=BrokerSessions)

    def number(self, name: str) -> int:
        """The value of a numeric broker config."""
        value = self.layers.values[name]
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        """The value of a boolean broker config."""
        return self.layers.values[name] is True

    def text(self, name: str) -> str:
        """The value of a textual broker config that always has one."""
        value = self.layers.values[name]
        assert isinstance(value, str), name
        return value
