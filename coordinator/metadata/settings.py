"""The shard's configuration, and a broker's configs with those of an image."""

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

    `fences_itself`: True if the session of its own broker expires like that of others.
    """

    node_id: int
    static: Mapping[str, str]
    fences_itself: bool = True


class CurrentLayers:
    """A broker's configs in all layers, recomputed only when the dynamic configs of the image change."""

    def __init__(self, config: MetadataConfig) -> None:
        self._config = config
        self._layers = BrokerLayers(config.static)

    def under(self, image: MetadataImage) -> BrokerLayers:
        """Returns the configs with those of `image`."""
        default = image.configs_of(ResourceType.BROKER, "")
        own = image.configs_of(ResourceType.BROKER, str(self._config.node_id))
        layers = self._layers
        if layers.dynamic_default != default or layers.dynamic_broker != own:
            layers = self._layers = BrokerLayers(self._config.static, default, own)
        return layers


@immutable
class DecisionContext:
    """The input of a decision besides its request: the metadata, and the configs of the broker that decides.

    `next_offset` is the offset of its first record in the metadata log, `topic_ids` yields ids for new topics, `now_ms`
    is the time of `sessions`, the soft state of brokers; functions that only describe need none of them.
    """

    image: MetadataImage
    layers: BrokerLayers
    node_id: int
    next_offset: int = -1
    topic_ids: Iterator[UUID] = field(default_factory=lambda: iter(()))
    now_ms: int = 0
    sessions: BrokerSessions = field(default_factory=BrokerSessions)

    def number(self, name: str) -> int:
        """Returns the value of a numeric broker config."""
        value = self.layers.values[name]
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        """Returns the value of a boolean broker config."""
        return self.layers.values[name] is True

    def text(self, name: str) -> str:
        """Returns the value of a textual broker config that always has one."""
        value = self.layers.values[name]
        assert isinstance(value, str), name
        return value
