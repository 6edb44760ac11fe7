"""Validation of the configs that a request sets. All functions raise ConfigRefusedError with Kafka's error code.

The messages are Kafka's, except those about client metrics and about protections that are not implemented.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.coordinator.configs.definition import ConfigValue, UpdateMode
from odradek.coordinator.configs.errors import ConfigRefusedError
from odradek.coordinator.configs.layers import BrokerLayers, topic_config_values
from odradek.coordinator.configs.limits import check_limit
from odradek.coordinator.configs.protections import ADVICE, protection_of
from odradek.coordinator.configs.tables import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    CLUSTER_LEVEL_LISTENER,
    GROUP_CONFIGS,
    LISTENER_ONLY,
    TOPIC_CONFIGS,
    broker_definition,
    without_listener,
)
from odradek.wire.errors import ErrorCode

_PUSH_INTERVAL_MS: Final = (100, 3_600_000)
_CLIENT_PROPERTIES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The properties that the `match` of a client metrics subscription may use (KIP-714)."""


def validate_topic_configs(overrides: Mapping[str, str], layers: BrokerLayers) -> None:
    """Check all overrides that a topic will have: first names, then values, then their combination."""
    for name in overrides:
        if name not in TOPIC_CONFIGS:
            raise ConfigRefusedError(f"Unknown topic config name: {name}")
    values = topic_config_values(overrides, layers)
    _check_compaction_lags(values)
    if values["remote.storage.enable"]:
        raise ConfigRefusedError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def _check_compaction_lags(values: Mapping[str, ConfigValue]) -> None:
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(least, int)
    assert isinstance(most, int)
    if least > most:
        raise ConfigRefusedError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )


def validate_broker_configs(texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Check the dynamic configs that a broker will have, or if not `per_broker` all brokers."""
    _refuse(
        (name for name in texts if (d := BROKER_CONFIGS.get(name)) and d.mode is UpdateMode.READ_ONLY),
        "Cannot update these configs dynamically",
    )
    _refuse(
        (name for name in texts if name in LISTENER_ONLY),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    _check_broker_values(texts)
    if not per_broker:
        _refuse(
            (name for name in texts if _needs_broker_id(name)),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def refuse_protections(changes: Mapping[str, str | None]) -> None:
    """Refuse changes of broker configs that promise a missing protection; None removes a config and is accepted."""
    for name, text in changes.items():
        protection = None if text is None else protection_of(name, text)
        if protection is not None:
            raise ConfigRefusedError(f"{name} promises {protection}, but {ADVICE}.", ErrorCode.INVALID_REQUEST)


def _refuse(names: Iterable[str], why: str) -> None:
    listed = ", ".join(names)
    if listed:
        raise ConfigRefusedError(f"{why}: [{listed}]", ErrorCode.INVALID_REQUEST)


def _check_broker_values(texts: Mapping[str, str]) -> None:
    """Unknown names are accepted: plug-ins have their own configs, and Kafka stores them too."""
    for name, text in texts.items():
        definition = broker_definition(name)
        try:
            if definition is not None:
                check_limit(name, definition.parse(text))
        except ConfigRefusedError as refused:
            raise ConfigRefusedError(refused.message, ErrorCode.INVALID_REQUEST) from refused


def _needs_broker_id(name: str) -> bool:
    base = without_listener(name)
    if base is not None:
        return base not in CLUSTER_LEVEL_LISTENER
    definition = BROKER_CONFIGS.get(name)
    return definition is not None and definition.mode is UpdateMode.PER_BROKER


def validate_group_configs(texts: Mapping[str, str], layers: BrokerLayers) -> None:
    """Check all configs that a group will have: names, values, and the broker's bounds (`group.consumer.min.…`)."""
    for name in texts:
        if name not in GROUP_CONFIGS:
            raise ConfigRefusedError(f"Unknown group config name: {name}")
    values = {name: GROUP_CONFIGS[name].parse(text) for name, text in texts.items()}
    for name, value in values.items():
        _check_group_bounds(name, value, layers)
    for family in ("consumer", "share", "streams"):
        _check_group_timing(family, values, layers)


def _check_group_bounds(name: str, value: ConfigValue, layers: BrokerLayers) -> None:
    family, _, rest = name.partition(".")
    if isinstance(value, bool) or not isinstance(value, int):
        return
    for bound, word, sign in (("min", "greater", 1), ("max", "less", -1)):
        limit_name = f"group.{family}.{bound}.{rest.removeprefix('num.')}"
        limit = layers.values.get(limit_name)
        if isinstance(limit, int) and (value - limit) * sign < 0:
            raise ConfigRefusedError(f"{name} must be {word} than or equal to {limit_name}")


def _check_group_timing(family: str, values: Mapping[str, ConfigValue], layers: BrokerLayers) -> None:
    """A session must be longer than a heartbeat interval; configs not set for the group are the broker's."""
    session, heartbeat = f"{family}.session.timeout.ms", f"{family}.heartbeat.interval.ms"
    session_ms, heartbeat_ms = (values.get(name, layers.values[f"group.{name}"]) for name in (session, heartbeat))
    assert isinstance(session_ms, int)
    assert isinstance(heartbeat_ms, int)
    if {session, heartbeat} & set(values) and session_ms <= heartbeat_ms:
        raise ConfigRefusedError(f"{session} must be greater than {heartbeat}")


def validate_client_metrics_configs(texts: Mapping[str, str]) -> None:
    """Check all configs of a client metrics subscription after a change: names, values, interval, match patterns."""
    for name in texts:
        if name not in CLIENT_METRICS_CONFIGS:
            raise ConfigRefusedError(f"There is no client metrics config {name}", ErrorCode.INVALID_REQUEST)
    values = {name: CLIENT_METRICS_CONFIGS[name].parse(text) for name, text in texts.items()}
    interval_ms, (shortest, longest) = values.get("interval.ms"), _PUSH_INTERVAL_MS
    if isinstance(interval_ms, int) and not shortest <= interval_ms <= longest:
        raise ConfigRefusedError(
            f"interval.ms must be {shortest} to {longest}, not {interval_ms}", ErrorCode.INVALID_REQUEST
        )
    patterns = values.get("match", ())
    for pattern in patterns if isinstance(patterns, tuple) else ():
        _check_client_pattern(pattern)


def _check_client_pattern(text: str) -> None:
    """Check a pattern of the form `property=regular expression`. Raises for a malformed one."""
    parts = text.rstrip("=").split("=")
    try:
        if len(parts) == 2 and parts[0].strip() in _CLIENT_PROPERTIES and re.compile(parts[1].strip()):
            return
    except (re.error, OverflowError, RecursionError) as error:  # the latter: a huge repetition, deep nesting
        raise ConfigRefusedError(f"The client match pattern {text} is no regular expression: {error}") from error
    raise ConfigRefusedError(f"The client match pattern {text} is not PROPERTY=PATTERN")
