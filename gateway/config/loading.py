"""Merges the sources, by precedence, into a checked configuration."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odradek.coordinator.configs.effects import without_effect
from odradek.coordinator.configs.errors import ConfigRefusedError
from odradek.coordinator.configs.layers import BrokerLayers
from odradek.coordinator.configs.limits import check_limit
from odradek.coordinator.configs.tables import broker_definition
from odradek.gateway.config.broker_config import STORAGE_SETTINGS, BrokerConfig, storage_url_of
from odradek.gateway.config.errors import ConfigError
from odradek.gateway.config.protections import check_protections
from odradek.gateway.config.python_values import SettingValue, setting_texts
from odradek.gateway.config.sources import Setting, Settings, read_environment, read_file, warn_of_unknown
from odradek.gateway.config.variables import warn_of_unknown_variables

log = logging.getLogger(__name__)


QUORUM_ADDRESSES: Final = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
CLUSTER_DEFAULTS: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
"""Kafka's defaults, for settings whose defaults here suit one broker (`odradek.coordinator.configs.differences`)."""


def load_config(
    file: Path | None = None,
    overrides: Mapping[str, SettingValue] | None = None,
    environ: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Merge defaults, a file, the environment (by default this process's) and overrides; later ones take precedence.

    Warns of settings that are unknown. Raises ConfigError with the setting, its source and the allowed values.
    """
    variables = os.environ if environ is None else environ
    settings = _merged(file, overrides, variables, defaults)
    _join_ids(settings)
    _add_defaults_of_clusters(settings)
    warn_of_unknown(settings)
    warn_of_unknown_variables(variables)
    _check(settings)
    check_protections(settings)
    _warn_of_no_effect(settings)
    try:
        return BrokerConfig.of(BrokerLayers({name: setting.text for name, setting in settings.items()}))
    except ConfigError as error:
        if error.setting not in settings:
            raise
        raise ConfigError(f"{error} ({settings[error.setting].source})", error.setting) from error


def load_storage_url(
    file: Path | None = None,
    overrides: Mapping[str, SettingValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """The storage URL that a broker has with these sources, for commands that work on its data without it.

    The other settings are neither checked nor warned of. Raises ConfigError.
    """
    settings = _merged(file, overrides, os.environ if environ is None else environ, None)
    wanted = {name: settings[name].text for name in STORAGE_SETTINGS if name in settings}
    return storage_url_of(BrokerLayers(wanted))


def _merged(
    file: Path | None,
    overrides: Mapping[str, SettingValue] | None,
    environ: Mapping[str, str],
    defaults: Mapping[str, str] | None,
) -> Settings:
    """The settings of all sources; later sources take precedence. Raises ConfigError for a file or value not read."""
    settings: Settings = {name: Setting(text, "default") for name, text in (defaults or {}).items()}
    if file is not None:
        settings.update(read_file(file))
    settings.update(read_environment(environ))
    settings.update({name: Setting(text, "command line") for name, text in setting_texts(overrides).items()})
    return settings


def _join_ids(settings: Settings) -> None:
    """Copy `node.id` and its old name `broker.id` to each other, so that both are shown, like Kafka."""
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in settings and other not in settings:
            settings[other] = settings[name]


def _add_defaults_of_clusters(settings: Settings) -> None:
    """In a cluster, replicate internal topics as Kafka does: our own defaults are for a cluster of one.

    Several voters or bootstrap servers of the quorum, or a node with one role, count as a cluster.
    """
    roles = settings.get("process.roles")
    quorum = [settings[name].text for name in QUORUM_ADDRESSES if name in settings]
    if any("," in text for text in quorum) or (roles is not None and "," not in roles.text):
        for name, text in CLUSTER_DEFAULTS.items():
            settings.setdefault(name, Setting(text, "default of a cluster"))


def _check(settings: Settings) -> None:
    for name, setting in settings.items():
        definition = broker_definition(name)
        if definition is None:
            continue
        try:
            check_limit(name, definition.parse(setting.text))
        except ConfigRefusedError as error:
            raise ConfigError(f"{error.message} ({setting.source})", name) from error


def _warn_of_no_effect(settings: Settings) -> None:
    """Log in one line the settings that differ from their defaults and have no effect."""
    idle = [name for name, setting in settings.items() if _is_idle(name, setting.text)]
    if idle:
        log.warning("settings without effect names=%s (docs/settings.md says why)", ",".join(sorted(idle)))


def _is_idle(name: str, text: str) -> bool:
    definition = broker_definition(name)
    if definition is None or without_effect("broker", name) is None:
        return False
    return definition.parse(text) != definition.parse_default()
