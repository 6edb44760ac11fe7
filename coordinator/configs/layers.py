"""A broker's configs in layers, and the resulting values.

From the highest layer to the lowest: set for this broker at run time, set for all brokers at run time, set at start
(file, environment, command line), default. Topic configs are above all of these, each with its own broker config as
fallback.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from odradek.coordinator.configs.definition import ConfigSource, ConfigValue
from odradek.coordinator.configs.tables import (
    BROKER_CONFIGS,
    BROKER_DEFAULTS,
    TOPIC_CONFIGS,
    TOPIC_SYNONYMS,
    Synonym,
    broker_synonyms,
)

_NOTHING: Final[Mapping[str, str]] = {}


class BrokerLayers:
    """The texts that were set, by layer. Values are computed once, so keep an object as long as nothing changes.

    Properties raise ConfigRefusedError if a text is invalid, which cannot happen for validated texts.
    """

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] = _NOTHING,
        dynamic_broker: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.static: Final = static
        self.dynamic_default: Final = dynamic_default
        self.dynamic_broker: Final = dynamic_broker

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BrokerLayers):
            return NotImplemented
        mine = (self.static, self.dynamic_default, self.dynamic_broker)
        return mine == (other.static, other.dynamic_default, other.dynamic_broker)

    @cached_property
    def originals(self) -> Mapping[str, str]:
        """The texts in force. A text of a higher layer hides the synonyms of its name in lower ones."""
        texts = dict(self.static)
        for layer in (self.dynamic_default, self.dynamic_broker):
            for name, text in layer.items():
                for synonym in broker_synonyms(name, listeners=False):
                    texts.pop(synonym, None)
                texts[name] = text
        return texts

    @cached_property
    def values(self) -> Mapping[str, ConfigValue]:
        """The value of every broker config."""
        texts = self.originals
        return {
            name: definition.parse(texts[name]) if name in texts else definition.parse_default()
            for name, definition in BROKER_CONFIGS.items()
        }

    @cached_property
    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        """The value of every topic config for a topic without overrides."""
        return {
            name: self._first_set(TOPIC_SYNONYMS[name]) if name in TOPIC_SYNONYMS else definition.parse_default()
            for name, definition in TOPIC_CONFIGS.items()
        }

    def _first_set(self, synonyms: tuple[Synonym, ...]) -> ConfigValue:
        for synonym in synonyms:
            value = self.values[synonym.name]
            if value is not None:
                return _scaled(value, synonym)
        raise AssertionError(f"no default for {synonyms}")

    def chain(self, name: str, synonyms: tuple[str, ...]) -> list[tuple[str, str, ConfigSource]]:
        """Returns where a broker config is set: (name, text, source), the one in force first.

        Entries before the first one for `name` itself are omitted, as in Kafka: if only a synonym is set, it is not
        included.
        """
        layers = (
            (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.static, ConfigSource.STATIC_BROKER_CONFIG),
            (BROKER_DEFAULTS, ConfigSource.DEFAULT_CONFIG),
        )
        found = [(each, texts[each], source) for texts, source in layers for each in synonyms if each in texts]
        own = next((index for index, (each, _, _) in enumerate(found) if each == name), len(found))
        return found[own:]


def _scaled(value: ConfigValue, synonym: Synonym) -> ConfigValue:
    """Returns `value` in the topic config's unit. A negative retention, in whatever unit, means "no limit"."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if synonym.name.startswith("log.retention.") and synonym.name != "log.retention.bytes" and value < 0:
        return -1
    return value * synonym.factor


def topic_config_values(overrides: Mapping[str, str], layers: BrokerLayers) -> Mapping[str, ConfigValue]:
    """Returns the value of every topic config for a topic with these overrides. Raises ConfigRefusedError."""
    values = dict(layers.topic_defaults)
    for name, text in overrides.items():
        definition = TOPIC_CONFIGS.get(name)
        if definition is not None:
            values[name] = definition.parse(text)
    return values


def effective_topic_texts(
    overrides: Mapping[str, str], layers: BrokerLayers
) -> list[tuple[str, str | None, ConfigSource]]:
    """Returns every topic config that is set or not internal, by name: (name, text, source), for CreateTopics.

    As in Kafka, texts are returned as they were set, not in normal form.
    """
    shown = sorted(name for name, definition in TOPIC_CONFIGS.items() if not definition.internal or name in overrides)
    return [(name, *_effective_text(name, overrides, layers)) for name in shown]


def _effective_text(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> tuple[str | None, ConfigSource]:
    if name in overrides:
        return overrides[name], ConfigSource.DYNAMIC_TOPIC_CONFIG
    sources = (
        (layers.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (layers.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (layers.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for texts, source in sources:
        for synonym in TOPIC_SYNONYMS.get(name, ()):
            if synonym.name in texts:
                return _scaled_text(texts[synonym.name], synonym), source
    return TOPIC_CONFIGS[name].default, ConfigSource.DEFAULT_CONFIG


def _scaled_text(text: str, synonym: Synonym) -> str:
    return text if synonym.factor == 1 else str(int(text) * synonym.factor)
