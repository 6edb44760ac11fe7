"""The definition of a config: its type, default, validation, and how it may change at run time.

A value has two forms: the text in files, requests and metadata records, and the parsed value. `parse_text` and
`format_value` convert between them as Kafka's `ConfigDef` does, so that DescribeConfigs returns what a Kafka client
expects.
"""

from dataclasses import replace
from enum import Enum, IntEnum
from typing import TypeAlias

from odradek.coordinator.configs.errors import bad_value
from odradek.coordinator.configs.numbers import format_double, parse_double, parse_integer
from odradek.coordinator.configs.validators import ListOf, Validator
from odradek.wire.values import immutable

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None
"""A parsed value; lists are tuples, None is "not set"."""


class ConfigType(IntEnum):
    """Kafka's types, numbered as in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source of a value, numbered as in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ResourceType(IntEnum):
    """The type of resource that a config belongs to, numbered as in the config APIs and ConfigRecord."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Importance(Enum):
    """The importance of a config, as in Kafka's documentation of settings."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """How a broker config may change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@immutable
class Definition:
    """One config. `default` is text, None for "not set"; `internal` ones are described only if they are set."""

    name: str
    type: ConfigType
    default: str | None
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    mode: UpdateMode = UpdateMode.CLUSTER_WIDE
    internal: bool = False
    doc: str | None = None

    @property
    def sensitive(self) -> bool:
        """True if the value must never leave the broker."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """Returns the value of `text`. Raises ConfigRefusedError with Kafka's message."""
        value = parse_text(self.name, self.type, text)
        if isinstance(self.validator, ListOf) and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))  # KIP-1161: duplicates are dropped, not refused
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    def parse_default(self) -> ConfigValue:
        """Returns the default as a value, without validation, since defaults are valid."""
        return None if self.default is None else parse_text(self.name, self.type, self.default)

    def with_default(self, default: str | None) -> "Definition":
        """Returns the same config with another default."""
        return replace(self, default=default)


_BOOLEANS = {"true": True, "false": False}
_INTEGER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def parse_text(name: str, kind: ConfigType, text: str) -> ConfigValue:
    """Parse `text` by type alone. Raises ConfigRefusedError."""
    trimmed = text.strip()
    if kind is ConfigType.BOOLEAN:
        if trimmed.lower() not in _BOOLEANS:
            raise bad_value(name, text, "Expected value to be either true or false")
        return _BOOLEANS[trimmed.lower()]
    if kind is ConfigType.LIST:
        return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
    if kind in _INTEGER_BITS or kind is ConfigType.DOUBLE:
        return _parse_number(name, kind, text)
    return trimmed


def _parse_number(name: str, kind: ConfigType, text: str) -> int | float:
    bits = _INTEGER_BITS.get(kind)
    value = parse_double(text) if bits is None else parse_integer(text.strip(), bits)
    if value is None:
        raise bad_value(name, text, f"Not a number of type {kind.name}")
    return value


def format_value(value: ConfigValue) -> str | None:
    """Returns the text of a value, in Kafka's format."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return format_double(value) if isinstance(value, float) else str(value)
