"""The definitions by name, with our deliberate differences applied, and the synonyms of configs.

Broker configs with more than one unit, such as `log.retention.ms`, `.minutes` and `.hours`, are synonyms: the first one
that is set is in force. A topic config falls back to its broker config and the synonyms of that.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.coordinator.configs.broker_defs import BROKER_DEFINITIONS, QUOTA_DEFINITIONS
from odradek.coordinator.configs.client_metrics_defs import CLIENT_METRICS_DEFINITIONS
from odradek.coordinator.configs.definition import ConfigType, Definition, UpdateMode
from odradek.coordinator.configs.differences import DELIBERATE_DIFFERENCES
from odradek.coordinator.configs.group_defs import GROUP_DEFINITIONS
from odradek.coordinator.configs.odradek_defs import ODRADEK_DEFINITIONS, ODRADEK_TOPIC_DEFINITIONS
from odradek.coordinator.configs.topic_defs import TOPIC_DEFINITIONS
from odradek.wire.values import immutable


def _table(definitions: Iterable[Definition], scope: str) -> Mapping[str, Definition]:
    table = {definition.name: definition for definition in definitions}
    for difference in DELIBERATE_DIFFERENCES:
        if difference.scope == scope:
            table[difference.name] = table[difference.name].with_default(difference.odradek)
    return table


BROKER_CONFIGS: Final = _table((*BROKER_DEFINITIONS, *ODRADEK_DEFINITIONS), "broker")
QUOTA_CONFIGS: Final = {definition.name: definition for definition in QUOTA_DEFINITIONS}
"""Broker configs that can be set only at run time, not in a file."""
TOPIC_CONFIGS: Final = _table((*TOPIC_DEFINITIONS, *ODRADEK_TOPIC_DEFINITIONS), "topic")
GROUP_CONFIGS: Final = _table(GROUP_DEFINITIONS, "group")
CLIENT_METRICS_CONFIGS: Final = _table(CLIENT_METRICS_DEFINITIONS, "client-metrics")

BROKER_DEFAULTS: Final = {name: text for name, d in BROKER_CONFIGS.items() if (text := d.default) is not None}
"""The text of every broker default that is not None."""

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


@immutable
class Synonym:
    """A broker config that a topic config falls back to; its value times `factor` is the topic's."""

    name: str
    factor: int = 1


def _same(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


TOPIC_SYNONYMS: Final[Mapping[str, tuple[Synonym, ...]]] = {
    "segment.bytes": _same("log.segment.bytes"),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": _same("log.index.size.max.bytes"),
    "flush.messages": _same("log.flush.interval.messages"),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "retention.bytes": _same("log.retention.bytes"),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": _same("message.max.bytes"),
    "index.interval.bytes": _same("log.index.interval.bytes"),
    "delete.retention.ms": _same("log.cleaner.delete.retention.ms"),
    "min.compaction.lag.ms": _same("log.cleaner.min.compaction.lag.ms"),
    "max.compaction.lag.ms": _same("log.cleaner.max.compaction.lag.ms"),
    "file.delete.delay.ms": _same("log.segment.delete.delay.ms"),
    "min.cleanable.dirty.ratio": _same("log.cleaner.min.cleanable.ratio"),
    "cleanup.policy": _same("log.cleanup.policy"),
    "unclean.leader.election.enable": _same("unclean.leader.election.enable"),
    "min.insync.replicas": _same("min.insync.replicas"),
    "compression.type": _same("compression.type"),
    "compression.gzip.level": _same("compression.gzip.level"),
    "compression.lz4.level": _same("compression.lz4.level"),
    "compression.zstd.level": _same("compression.zstd.level"),
    "preallocate": _same("log.preallocate"),
    "message.timestamp.type": _same("log.message.timestamp.type"),
    "message.timestamp.before.max.ms": _same("log.message.timestamp.before.max.ms"),
    "message.timestamp.after.max.ms": _same("log.message.timestamp.after.max.ms"),
    "local.retention.ms": _same("log.local.retention.ms"),
    "local.retention.bytes": _same("log.local.retention.bytes"),
}

_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_BROKER_SYNONYMS: Final = {
    **dict.fromkeys(_RETENTION, _RETENTION),
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_JITTER, _JITTER),
    "log.flush.interval.ms": _FLUSH,  # one way only: the scheduler's interval is only the default of this
}

LISTENER_PREFIX: Final = "listener.name."

_MECHANISM_CONFIGS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

LISTENER_ONLY: Final = frozenset(
    name
    for name in BROKER_CONFIGS
    if name.startswith(("ssl.keystore.", "ssl.truststore.")) or name == "ssl.key.password"
)
"""Security configs that change at run time only under a listener's prefix."""

CLUSTER_LEVEL_LISTENER: Final = frozenset(("max.connections", "max.connection.creation.rate", "num.network.threads"))
"""Listener configs that may be set for the whole cluster."""


def without_listener(name: str) -> str | None:
    """Returns the config that `listener.name.NAME.…` sets for one listener; None for a name without that prefix."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    _, dot, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    if not dot:
        return None
    return next((config for config in _MECHANISM_CONFIGS if base.endswith(config)), base)


def broker_synonyms(name: str, *, listeners: bool = True) -> tuple[str, ...]:
    """Returns the broker configs that `name` is read from, in order; with `listeners`, also without its prefix."""
    base = without_listener(name) if listeners else None
    return (name, base) if base is not None else _BROKER_SYNONYMS.get(name, (name,))


def broker_definition(name: str) -> Definition | None:
    """Returns a broker config's definition, with or without a listener prefix in its name; None if unknown."""
    found = BROKER_CONFIGS.get(name) or QUOTA_CONFIGS.get(name)
    base = without_listener(name) if found is None else None
    return found if base is None else BROKER_CONFIGS.get(base)


def is_dynamic(name: str) -> bool:
    """True if DescribeConfigs returns the broker config as one that can change at run time."""
    definition = BROKER_CONFIGS.get(name) or QUOTA_CONFIGS.get(name)
    return definition is not None and definition.mode is not UpdateMode.READ_ONLY


def is_list(table: Mapping[str, Definition], name: str) -> bool:
    """True if values can be appended to the config."""
    definition = table.get(name)
    return definition is not None and definition.type is ConfigType.LIST
