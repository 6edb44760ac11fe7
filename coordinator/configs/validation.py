"""Which configs a request may set. All raise ConfigRefusedError with Kafka's error code and message."""

from collections.abc import Iterable, Mapping

from coordinator.configs.definition import ConfigValue, UpdateMode
from coordinator.configs.errors import ConfigRefusedError
from coordinator.configs.layers import BrokerLayers, topic_config_values
from coordinator.configs.tables import (
    BROKER_CONFIGS,
    CLUSTER_LEVEL_LISTENER,
    GROUP_CONFIGS,
    LISTENER_ONLY,
    TOPIC_CONFIGS,
    broker_definition,
    without_listener,
)
from wire.errors import ErrorCode


def validate_topic_configs(overrides: Mapping[str, str], layers: BrokerLayers) -> None:
    """Check all overrides that a topic will have: names first, then values, then what they mean together."""
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
    """Check all configs that a broker, or every broker when not `per_broker`, will have been given at run time."""
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


def _refuse(names: Iterable[str], why: str) -> None:
    listed = ", ".join(names)
    if listed:
        raise ConfigRefusedError(f"{why}: [{listed}]", ErrorCode.INVALID_REQUEST)


def _check_broker_values(texts: Mapping[str, str]) -> None:
    """Names unknown to us pass: plug-ins have their own, and Kafka stores them too."""
    for name, text in texts.items():
        definition = broker_definition(name)
        try:
            if definition is not None:
                definition.parse(text)
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
    for name, text in texts.items():
        _check_group_bounds(name, GROUP_CONFIGS[name].parse(text), layers)


def _check_group_bounds(name: str, value: ConfigValue, layers: BrokerLayers) -> None:
    family, _, rest = name.partition(".")
    if isinstance(value, bool) or not isinstance(value, int):
        return
    for bound, word, sign in (("min", "greater", 1), ("max", "less", -1)):
        limit_name = f"group.{family}.{bound}.{rest}"
        limit = layers.values.get(limit_name)
        if isinstance(limit, int) and (value - limit) * sign < 0:
            raise ConfigRefusedError(f"{name} must be {word} than or equal to {limit_name}")
