"""DescribeConfigs for one topic, broker, group or client metrics subscription: values, sources, synonyms, types."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.coordinator.configs.definition import ConfigSource, ConfigType, Definition, format_value
from odradek.coordinator.configs.layers import BrokerLayers, topic_config_values
from odradek.coordinator.configs.tables import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    TOPIC_SYNONYMS,
    broker_definition,
    broker_synonyms,
    is_dynamic,
)
from odradek.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

Chain = Sequence[tuple[str, str | None, ConfigSource]]


@dataclass(frozen=True, slots=True)
class DescribeOptions:
    """The options of the request. `keys` limits the response; None or empty means all configs."""

    keys: Sequence[str] | None = None
    synonyms: bool = False
    documentation: bool = False


def describe_topic(
    overrides: Mapping[str, str], layers: BrokerLayers, options: DescribeOptions
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Returns every config of a topic with these overrides."""
    values = topic_config_values(overrides, layers)
    shown = [name for name, definition in TOPIC_CONFIGS.items() if not definition.internal or name in overrides]
    return tuple(
        _entry(name, TOPIC_CONFIGS[name], format_value(values[name]), _topic_chain(name, overrides, layers), options)
        for name in _asked(shown, options)
    )


def _topic_chain(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Chain:
    chain: list[tuple[str, str | None, ConfigSource]] = []
    if name in overrides:
        text = format_value(TOPIC_CONFIGS[name].parse(overrides[name]))
        chain.append((name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG))
    if name in TOPIC_SYNONYMS:
        primary = TOPIC_SYNONYMS[name][0].name
        chain += layers.chain(primary, broker_synonyms(primary))
    return chain


def describe_broker(layers: BrokerLayers, options: DescribeOptions) -> tuple[DescribeConfigsResourceResult, ...]:
    """Returns every config of this broker that is not internal, and every other one, known or not, that was set."""
    shown = [name for name, definition in BROKER_CONFIGS.items() if not definition.internal]
    texts = {name: format_value(layers.values[name]) for name in shown}
    texts = {**layers.originals, **texts}
    return tuple(
        _broker_entry(name, texts[name], layers.chain(name, broker_synonyms(name)), options)
        for name in _asked([*shown, *(name for name in layers.originals if name not in shown)], options)
    )


def describe_broker_default(
    layers: BrokerLayers, options: DescribeOptions
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Returns the configs that were set at run time for all brokers."""
    return tuple(
        _broker_entry(name, layers.dynamic_default[name], _default_chain(name, layers), options)
        for name in _asked(layers.dynamic_default, options)
    )


def _default_chain(name: str, layers: BrokerLayers) -> Chain:
    chain = layers.chain(name, broker_synonyms(name))
    return [link for link in chain if link[2] is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG]


def describe_group(
    overrides: Mapping[str, str], layers: BrokerLayers, options: DescribeOptions
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Returns every config of a group with these overrides; for an unset one, the value of the broker's `group.…`."""
    return tuple(_group_entry(name, overrides, layers, options) for name in _asked(GROUP_CONFIGS, options))


def _group_entry(
    name: str, overrides: Mapping[str, str], layers: BrokerLayers, options: DescribeOptions
) -> DescribeConfigsResourceResult:
    definition = GROUP_CONFIGS[name]
    broker_name = f"group.{name}"
    chain: list[tuple[str, str | None, ConfigSource]] = []
    if name in overrides:
        value = definition.parse(overrides[name])
        chain.append((name, format_value(value), ConfigSource.GROUP_CONFIG))
    else:
        value = layers.values[broker_name] if broker_name in BROKER_CONFIGS else definition.parse_default()
    if broker_name in BROKER_CONFIGS:
        chain += layers.chain(broker_name, broker_synonyms(broker_name))
    else:
        chain.append((name, definition.default, ConfigSource.DEFAULT_CONFIG))
    return _entry(name, definition, format_value(value), chain, options)


def describe_client_metrics(
    overrides: Mapping[str, str], options: DescribeOptions
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Returns every config of a client metrics subscription; one that does not exist has the defaults."""
    return tuple(_client_metrics_entry(name, overrides, options) for name in _asked(CLIENT_METRICS_CONFIGS, options))


def _client_metrics_entry(
    name: str, overrides: Mapping[str, str], options: DescribeOptions
) -> DescribeConfigsResourceResult:
    definition = CLIENT_METRICS_CONFIGS[name]
    if name not in overrides:
        return _entry(name, definition, definition.default, (), options)
    text = format_value(definition.parse(overrides[name]))
    return _entry(name, definition, text, [(name, text, ConfigSource.CLIENT_METRICS_CONFIG)], options)


def _asked(names: Iterable[str], options: DescribeOptions) -> list[str]:
    keys = frozenset(options.keys or ())
    return [name for name in names if not keys or name in keys]


def _broker_entry(name: str, text: str | None, chain: Chain, options: DescribeOptions) -> DescribeConfigsResourceResult:
    return _entry(name, broker_definition(name), text, chain, options, read_only=not is_dynamic(name))


def _entry(
    name: str,
    definition: Definition | None,
    text: str | None,
    chain: Chain,
    options: DescribeOptions,
    *,
    read_only: bool = False,
) -> DescribeConfigsResourceResult:
    """A config without a definition is treated as sensitive, since its value may be a secret."""
    sensitive = definition is None or definition.sensitive
    links = chain if options.synonyms else ()
    return DescribeConfigsResourceResult(
        name=name,
        value=None if sensitive else text,
        read_only=read_only,
        config_source=chain[0][2] if chain else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=each, value=None if sensitive else value, source=source)
            for each, value, source in links
        ),
        config_type=ConfigType.UNKNOWN if definition is None else definition.type,
        documentation=definition.doc if definition is not None and options.documentation else None,
    )
