"""The tables compared with Kafka's own definitions, and parsing and formatting of values."""

import contextlib
import re

import pytest
from config_kafka_answers import definitions
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.configs.broker_defs import BROKER_DEFINITIONS
from odradek.coordinator.configs.definition import ConfigType, Definition, format_value
from odradek.coordinator.configs.differences import DELIBERATE_DIFFERENCES
from odradek.coordinator.configs.errors import ConfigRefusedError
from odradek.coordinator.configs.group_defs import GROUP_DEFINITIONS
from odradek.coordinator.configs.numbers import format_double, parse_double, parse_integer
from odradek.coordinator.configs.odradek_defs import ODRADEK_DEFINITIONS
from odradek.coordinator.configs.tables import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS, TOPIC_SYNONYMS
from odradek.coordinator.configs.topic_defs import TOPIC_DEFINITIONS
from odradek.coordinator.configs.validators import OneOf, Range, list_of
from odradek.wire.errors import ErrorCode

KINDS = {"broker": BROKER_DEFINITIONS, "topic": TOPIC_DEFINITIONS, "group": GROUP_DEFINITIONS}


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_lists_kafkas_configs_and_no_others(kind: str):
    assert [d.name for d in KINDS[kind]] == list(definitions()[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_every_definition_is_kafkas(kind: str):
    for definition in KINDS[kind]:
        type_name, default, valid, importance, internal, mode = definitions()[kind][definition.name]
        assert definition.type.name == type_name, definition.name
        assert definition.default == default, definition.name
        assert definition.importance.name == importance, definition.name
        assert definition.internal is internal, definition.name
        if mode is not None:
            assert definition.mode.value == mode, definition.name
        if isinstance(definition.validator, Range):
            low, high = re.fullmatch(r"\[(\S+?),\.\.\.(?:,(\S+))?\]", valid).groups()
            assert (str(definition.validator.low), str(definition.validator.high)) == (low, str(high)), definition.name
        if isinstance(definition.validator, OneOf):
            assert f"[{', '.join(definition.validator.allowed)}]" == valid, definition.name


def test_only_what_the_list_names_differs_from_kafka():
    differing = {
        (scope, name)
        for scope, table in (("broker", BROKER_CONFIGS), ("topic", TOPIC_CONFIGS), ("group", GROUP_CONFIGS))
        for name, (_, default, *_rest) in definitions()[scope].items()
        if table[name].default != default
    }
    assert differing == {(d.scope, d.name) for d in DELIBERATE_DIFFERENCES}
    for difference in DELIBERATE_DIFFERENCES:
        assert definitions()[difference.scope][difference.name][1] == difference.kafka
        assert difference.reason.endswith(".")


def test_our_own_configs_keep_to_their_prefix_and_say_what_they_are():
    for definition in ODRADEK_DEFINITIONS:
        assert definition.name.startswith("odradek.")
        assert definition.doc


@pytest.mark.parametrize("table", [BROKER_CONFIGS, TOPIC_CONFIGS, GROUP_CONFIGS])
def test_defaults_pass_their_own_rules_and_read_as_written(table: dict[str, Definition]):
    for definition in table.values():
        if definition.default is not None:
            assert format_value(definition.parse(definition.default)) == definition.default, definition.name


def test_synonyms_exist_and_have_the_type_of_the_topic_config():
    for name, synonyms in TOPIC_SYNONYMS.items():
        assert BROKER_CONFIGS[synonyms[0].name].type is TOPIC_CONFIGS[name].type
        assert all(synonym.name in BROKER_CONFIGS for synonym in synonyms)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 5 ", 5),
        ("retention.ms", "+5", 5),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "compact,compact", ("compact",)),
        ("cleanup.policy", "", ()),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("min.cleanable.dirty.ratio", "1d", 1.0),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_values_are_read_as_kafka_reads_them(name: str, text: str, value: object):
    assert TOPIC_CONFIGS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("controller.quorum.voters", "x", "Each entry should be in the form `{id}@{host}:{port}`."),
        ("controller.quorum.bootstrap.servers", "x", "Failed to parse host name from x for the configuration"),
        ("group.consumer.migration.policy", "zz", "String must be one of (case insensitive): DISABLED, DOWNGRADE"),
        ("remote.log.storage.manager.impl.prefix", " ", "String must be non-empty"),
        ("group.share.max.size", "1001", "Value must be no more than 1000"),
        ("offsets.topic.replication.factor", "99999", "Not a number of type SHORT"),
        ("process.roles", "", "must not be empty. Valid values include: [broker, controller]"),
        ("controller.listener.names", "", "must not be empty. Valid values include: any non-empty value"),
        ("listeners", "a://:1,,b://:2", "Configuration 'listeners' values must not be empty."),
    ],
)
def test_refusals_speak_kafkas_words(name: str, text: str, message: str):
    with pytest.raises(ConfigRefusedError) as refused:
        BROKER_CONFIGS[name].parse(text)
    assert message in refused.value.message
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_share_groups_reset_is_a_name_or_a_duration():
    reset = GROUP_CONFIGS["share.auto.offset.reset"]
    assert reset.parse("by_duration:PT1H") == "by_duration:PT1H"
    for wrong in ("LATEST", "by_duration:x", "by_duration:P", "by_duration:PT"):
        with pytest.raises(ConfigRefusedError, match="must be either 'earliest', 'latest'"):
            reset.parse(wrong)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.5, "0.5"),
        (1e9, "1.0E9"),
        (1e-4, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-0.0, "-0.0"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles_look_as_in_java(value: float, text: str):
    assert format_double(value) == text


@given(st.floats(allow_nan=False))
def test_doubles_read_back(value: float):
    assert parse_double(format_double(value)) == value


@pytest.mark.parametrize(
    "text", ["1", "1.", "1.5", ".5", "+1.e2", "-.5E-3f", "01.50d", "1e5", "Infinity", "-NaN", " 7 "]
)
def test_doubles_in_javas_forms(text: str):
    assert parse_double(text) is not None


@pytest.mark.parametrize(
    "text", ["", ".", "e5", ".e5", "1.5.", "1..5", "1e", "1e5.5", "1ff", "1_0", "0x1p3", "inf", "nan"]
)
def test_other_forms_are_no_doubles(text: str):
    assert parse_double(text) is None


def test_a_double_of_many_digits():
    assert parse_double("1" * 32_767) == float("inf")
    assert parse_double("1" * 32_766 + "x") is None
    assert parse_double("1" * 32_768) is None


@given(st.integers(-(2**70), 2**70), st.sampled_from([16, 32, 64]))
def test_integers_fit_their_type_or_are_refused(value: int, bits: int):
    fits = -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    assert parse_integer(str(value), bits) == (value if fits else None)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str):
    for kind in ConfigType:
        definition = Definition("some.config", kind, None, list_of() if kind is ConfigType.LIST else None)
        with contextlib.suppress(ConfigRefusedError):
            value = definition.parse(text)
            assert definition.parse(format_value(value) or "") == value or text.strip().endswith("NaN")


def test_digits_of_other_scripts_are_no_numbers():
    assert parse_integer("٣", 32) is None
    assert parse_double("٣") is None
    assert parse_integer("1_000", 32) is None
