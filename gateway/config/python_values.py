"""Settings given as Python values instead of text, in Python code or in TOML."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from odradek.gateway.config.errors import ConfigError

SettingValue: TypeAlias = str | bool | int | float | Sequence[str]
"""Text as in a properties file, a number, a boolean, or a list, which is joined with commas."""


def setting_text(name: str, value: object) -> str:
    """The value as text, as in a properties file. Raises ConfigError for a value of an unsupported type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(setting_text(name, item) for item in cast("Sequence[object]", value))
    raise ConfigError(f"{name} is a {type(value).__name__}; a setting is text, a number, a boolean or a list", name)


def setting_texts(values: Mapping[str, SettingValue] | None) -> dict[str, str]:
    """The texts of a mapping of settings. Raises ConfigError with the setting whose type is not supported."""
    return {name: setting_text(name, value) for name, value in (values or {}).items()}
