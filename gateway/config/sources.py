"""Reads settings from files and the environment, each with its source for messages."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from odradek.coordinator.configs.protections import protection_of
from odradek.coordinator.configs.tables import broker_definition
from odradek.gateway.config.errors import ConfigError
from odradek.gateway.config.python_values import setting_text
from odradek.gateway.config.variables import dotted, settings_of
from odradek.wire.values import immutable

log = logging.getLogger(__name__)

KAFKA_PREFIX: Final = "KAFKA_"
IMAGE_ONLY: Final = frozenset(
    (
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_IMAGE",
        "KAFKA_HOME",
    )
)
"""Variables of the official image that are not settings of the broker."""


@immutable
class Setting:
    """One setting's text, and its source (a file, a variable or an option) for messages."""

    text: str
    source: str


Settings = dict[str, Setting]


def read_file(path: Path) -> Settings:
    """Settings of a TOML file (`.toml`) or a properties file (anything else). Raises ConfigError."""
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}") from error
    if path.suffix == ".toml":
        return _read_toml(path, content)
    from odradek.gateway.config.properties import parse_properties

    return {name: Setting(value.strip(), f"{path}:{line}") for name, value, line in parse_properties(content)}


def _read_toml(path: Path, content: str) -> Settings:
    import tomllib

    try:
        tables = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    return {name: Setting(text, f"{path} ({name})") for name, text in _flatten("", tables, path)}


def _flatten(prefix: str, value: object, path: Path) -> Iterator[tuple[str, str]]:
    """Nested tables become dotted names; `[log.retention] ms = 1` and `"log.retention.ms" = 1` are the same."""
    if isinstance(value, dict):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _flatten(f"{prefix}.{key}" if prefix else str(key), inner, path)  # pyright: ignore[reportUnknownArgumentType]
    else:
        try:
            yield prefix, setting_text(prefix, value)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}", prefix) from error


def read_environment(environ: Mapping[str, str]) -> Settings:
    """Settings of `KAFKA_*` and `ODRADEK_*` variables; the latter take precedence."""
    return {name: Setting(text, f"${variable}") for variable, name, text in variables(environ)}


def variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (variable, setting, text) of the variables that are settings; a later one of the same setting wins."""
    for variable, text in sorted(environ.items()):
        if variable.startswith(KAFKA_PREFIX) and variable not in IMAGE_ONLY:
            yield variable, dotted(variable.removeprefix(KAFKA_PREFIX)), text
    yield from settings_of(environ)


def warn_of_unknown(settings: Settings) -> None:
    """Log a warning for each setting that is unknown. Like Kafka, keep it. A protection is refused, not ignored."""
    for name, setting in settings.items():
        if broker_definition(name) is None and protection_of(name, setting.text) is None:
            log.warning("unknown setting ignored name=%s source=%s", name, setting.source)
