"""Reads settings whose values are text."""

from odradek.coordinator.configs.layers import BrokerLayers


def optional(layers: BrokerLayers, name: str) -> str | None:
    """The text of a setting; None if it is not set."""
    value = layers.values[name]
    return None if value is None else str(value)


def texts(layers: BrokerLayers, name: str) -> tuple[str, ...]:
    """The entries of a setting that is a list, or a comma-separated text."""
    value = layers.values[name]
    if isinstance(value, tuple):
        return value
    return tuple(text.strip() for text in str(value).split(",")) if value else ()
