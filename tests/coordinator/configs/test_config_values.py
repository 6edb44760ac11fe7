"""Layers of configs, rules for changes, operations, and the resulting settings."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.configs.definition import ConfigSource, ResourceType
from odradek.coordinator.configs.errors import ConfigRefusedError
from odradek.coordinator.configs.layers import BrokerLayers, effective_topic_texts, topic_config_values
from odradek.coordinator.configs.log_settings import log_config_from
from odradek.coordinator.configs.operations import AlterOperation, apply_operation
from odradek.coordinator.configs.tables import broker_synonyms, without_listener
from odradek.coordinator.configs.validation import (
    validate_broker_configs,
    validate_group_configs,
    validate_topic_configs,
)
from odradek.partitions.config import LogConfig
from odradek.wire.errors import ErrorCode

DEFAULTS = BrokerLayers({})


@pytest.mark.parametrize(
    ("static", "name", "value"),
    [
        ({}, "retention.ms", 604_800_000),
        ({"log.retention.hours": "1"}, "retention.ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention.ms", 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, "retention.ms", 3),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.minutes": "-1"}, "retention.ms", -1),
        ({"log.roll.hours": "2"}, "segment.ms", 7_200_000),
        ({"log.roll.ms": "5", "log.roll.hours": "2"}, "segment.ms", 5),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush.ms", 9),
        ({"log.flush.interval.ms": "8", "log.flush.scheduler.interval.ms": "9"}, "flush.ms", 8),
        ({"message.max.bytes": "5000"}, "max.message.bytes", 5000),
        ({"log.cleanup.policy": "compact"}, "cleanup.policy", ("compact",)),
    ],
)
def test_a_topic_falls_back_to_its_broker_configs(static: dict[str, str], name: str, value: object):
    assert BrokerLayers(static).topic_defaults[name] == value


def test_a_higher_layer_hides_the_synonyms_of_lower_ones():
    layers = BrokerLayers({"log.retention.minutes": "2"}, {"log.retention.ms": "3"}, {})
    assert layers.values["log.retention.minutes"] is None
    assert layers.topic_defaults["retention.ms"] == 3
    assert BrokerLayers({}, {"log.retention.ms": "3"}, {"log.retention.ms": "4"}).topic_defaults["retention.ms"] == 4


def test_an_override_beats_every_layer():
    layers = BrokerLayers({"log.retention.ms": "1"}, {"log.retention.ms": "2"}, {"log.retention.ms": "3"})
    assert topic_config_values({"retention.ms": "4"}, layers)["retention.ms"] == 4


def test_effective_texts_name_their_source():
    layers = BrokerLayers({"log.retention.hours": "2"}, {"log.segment.bytes": "2000000"}, {"message.max.bytes": "7"})
    texts = {name: (text, source) for name, text, source in effective_topic_texts({"flush.ms": "+5"}, layers)}
    assert texts["retention.ms"] == ("7200000", ConfigSource.STATIC_BROKER_CONFIG)
    assert texts["segment.bytes"] == ("2000000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert texts["max.message.bytes"] == ("7", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert texts["flush.ms"] == ("+5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert texts["flush.messages"] == ("1", ConfigSource.DEFAULT_CONFIG)
    assert list(texts) == sorted(texts)


def test_listener_prefixes_are_seen_through():
    assert without_listener("listener.name.plain.max.connections") == "max.connections"
    assert without_listener("listener.name.sasl.scram-sha-256.sasl.jaas.config") == "sasl.jaas.config"
    assert without_listener("listener.name.plain") is None
    assert without_listener("max.connections") is None
    assert broker_synonyms("listener.name.x.ssl.protocol") == ("listener.name.x.ssl.protocol", "ssl.protocol")


@pytest.mark.parametrize(
    ("texts", "per_broker", "message"),
    [
        ({"num.partitions": "2", "broker.rack": "x"}, False, "dynamically: [num.partitions, broker.rack]"),
        ({"ssl.keystore.location": "x"}, True, "only per-listener using the listener prefix: [ssl.keystore.location]"),
        ({"listeners": "a"}, False, "at default cluster level, broker id must be specified: [listeners]"),
        ({"listener.name.a.ssl.protocol": "x"}, False, "specified: [listener.name.a.ssl.protocol]"),
        ({"listener.name.a.max.connections": "x"}, True, "Not a number of type INT"),
        ({"message.max.bytes": "-1"}, True, "Value must be at least 0"),
        ({"log.cleaner.threads": "1001"}, True, "Value must be no more than 1000"),
        ({"odradek.commit.threads": "2"}, True, "Cannot update these configs dynamically: [odradek.commit.threads]"),
    ],
)
def test_broker_changes_are_refused_as_invalid_requests(texts: dict[str, str], per_broker: bool, message: str):
    with pytest.raises(ConfigRefusedError) as refused:
        validate_broker_configs(texts, per_broker=per_broker)
    assert message in refused.value.message
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_broker_changes_that_are_allowed():
    validate_broker_configs({"listener.name.a.max.connections": "5", "some.plugin": "x"}, per_broker=False)
    validate_broker_configs({"listener.name.a.ssl.keystore.location": "/x", "listeners": "a://:1"}, per_broker=True)


def test_topic_rules_that_span_configs():
    lags = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    with pytest.raises(ConfigRefusedError, match=r"min\.compaction\.lag\.ms \(10\) > max\.compaction\.lag\.ms \(5\)"):
        validate_topic_configs(lags, DEFAULTS)
    with pytest.raises(ConfigRefusedError, match="Tiered Storage functionality is disabled"):
        validate_topic_configs({"remote.storage.enable": "true"}, DEFAULTS)


def test_group_values_stay_within_the_brokers_bounds():
    validate_group_configs(
        {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}, DEFAULTS
    )
    for text, limit in (("1", "greater than or equal to group.consumer.min"), ("99999", "less than or equal to group")):
        with pytest.raises(ConfigRefusedError, match=limit):
            validate_group_configs({"consumer.session.timeout.ms": text}, DEFAULTS)
    with pytest.raises(ConfigRefusedError, match="Unknown group config name: nope"):
        validate_group_configs({"nope": "1"}, DEFAULTS)


@pytest.mark.parametrize(
    ("operation", "operand", "current", "result"),
    [
        (AlterOperation.SET, "compact", None, "compact"),
        (AlterOperation.DELETE, None, "compact", None),
        (AlterOperation.APPEND, "compact", None, "delete,compact"),
        (AlterOperation.APPEND, "compact", "compact", "compact"),
        (AlterOperation.APPEND, "compact", "", "compact"),
        (AlterOperation.SUBTRACT, "delete", "delete,compact", "compact"),
        (AlterOperation.SUBTRACT, "compact", "compact", ""),
        (AlterOperation.SUBTRACT, "nope", None, "delete"),
        (AlterOperation.APPEND, "c,b,c", "b,a,b", "b,a,b,c"),
        (AlterOperation.SUBTRACT, "a", "a,b,a", "b,a"),
        (AlterOperation.SUBTRACT, "a,a,a", "a,b,a", "b"),
    ],
)
def test_operations(operation: AlterOperation, operand: str | None, current: str | None, result: str | None):
    assert apply_operation(ResourceType.TOPIC, "cleanup.policy", operation, operand, current) == result


@pytest.mark.parametrize(
    ("operation", "operand", "current"),
    [
        (AlterOperation.SET, "x" * 32_768, None),
        (AlterOperation.SET, "ü" * 16_384, None),
        (AlterOperation.APPEND, "y", "x" * 32_766),
    ],
)
def test_a_value_longer_than_a_string_can_be_is_refused(operation: AlterOperation, operand: str, current: str | None):
    with pytest.raises(ConfigRefusedError, match="exceeds the maximum value size of 32767 bytes") as refused:
        apply_operation(ResourceType.TOPIC, "leader.replication.throttled.replicas", operation, operand, current)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_the_longest_value_can_be_set():
    current = "x" * 32_765
    longest = apply_operation(
        ResourceType.TOPIC, "leader.replication.throttled.replicas", AlterOperation.APPEND, "y", current
    )
    assert longest == f"{current},y"


def test_only_lists_grow():
    with pytest.raises(ConfigRefusedError, match=r"Can't APPEND to key retention\.ms because its type is not LIST"):
        apply_operation(ResourceType.TOPIC, "retention.ms", AlterOperation.APPEND, "5", None)
    with pytest.raises(ConfigRefusedError, match=r"Config value subtract is not allowed for config key: a\.b"):
        apply_operation(ResourceType.BROKER, "a.b", AlterOperation.SUBTRACT, "5", None)


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=5),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4),
)
def test_what_was_appended_can_be_subtracted(before: list[str], added: list[str]):
    start = ",".join(dict.fromkeys(before))
    name = "leader.replication.throttled.replicas"
    grown = apply_operation(ResourceType.TOPIC, name, AlterOperation.APPEND, ",".join(added), start)
    assert grown is not None
    assert set(grown.split(",")) == set(before) | set(added)
    shrunk = apply_operation(ResourceType.TOPIC, name, AlterOperation.SUBTRACT, ",".join(added), grown)
    assert set(filter(None, (shrunk or "").split(","))) == set(before) - set(added)


def test_log_settings_have_the_values_of_the_topic():
    overrides = {"compression.type": "zstd", "compression.zstd.level": "5", "internal.segment.bytes": "99"}
    settings = log_config_from(topic_config_values(overrides, DEFAULTS))
    assert settings.segment_bytes == 99
    assert settings.compression_level == 5
    assert settings.flush_messages == 1
    assert settings.cleanup_policy == {"delete"}
    plain = log_config_from(topic_config_values({"retention.bytes": "-5"}, DEFAULTS))
    assert plain.segment_bytes == 1_073_741_824
    assert plain.compression_level is None
    assert plain.retention_bytes == -1


def test_log_settings_have_every_name_that_the_partition_logic_uses():
    config = LogConfig
    ours = {field.name for field in dataclasses.fields(log_config_from(topic_config_values({}, DEFAULTS)))}
    assert {field.name for field in dataclasses.fields(config)} - ours <= {
        "max_decompressed_bytes",
        "producer_id_expiration_ms",
        "replica_lag_time_max_ms",
        "transaction_verification",
    }
