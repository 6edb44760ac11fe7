"""DescribeConfigs, field by field, compared with the answers of a real Kafka."""

from typing import Any

import pytest
from config_kafka_answers import described, kafka_static

from odradek.coordinator.configs import layers as layers_module
from odradek.coordinator.configs import tables
from odradek.coordinator.configs.definition import ConfigSource, ConfigType
from odradek.coordinator.configs.describe import (
    DescribeOptions,
    describe_broker,
    describe_broker_default,
    describe_group,
    describe_topic,
)
from odradek.coordinator.configs.differences import DELIBERATE_DIFFERENCES
from odradek.coordinator.configs.layers import BrokerLayers
from odradek.wire.messages.describe_configs import DescribeConfigsResourceResult

ALL = DescribeOptions(synonyms=True)
DYNAMIC_DEFAULT = {"log.retention.ms": "111111", "message.max.bytes": "2000000"}
DYNAMIC_BROKER = {
    "message.max.bytes": "3000000",
    "log.cleaner.threads": "2",
    "min.insync.replicas": "1",
    "listener.name.plaintext.ssl.keystore.password": "x",
}


@pytest.fixture
def kafkas_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reverts our deliberate differences, so that everything else can be compared exactly."""
    by_scope = {"broker": tables.BROKER_CONFIGS, "topic": tables.TOPIC_CONFIGS}
    for difference in DELIBERATE_DIFFERENCES:
        table = by_scope[difference.scope]
        monkeypatch.setitem(table, difference.name, table[difference.name].with_default(difference.kafka))
    defaults = {name: d.default for name, d in tables.BROKER_CONFIGS.items() if d.default is not None}
    monkeypatch.setattr(layers_module, "BROKER_DEFAULTS", defaults)


def fields(entries: tuple[DescribeConfigsResourceResult, ...]) -> dict[str, list[Any]]:
    return {
        e.name: [
            e.value,
            ConfigSource(e.config_source).name,
            ConfigType(e.config_type).name,
            e.read_only,
            e.is_sensitive,
            [[s.name, s.value, ConfigSource(s.source).name] for s in e.synonyms],
        ]
        for e in entries
        if not e.name.startswith("odradek.")
    }


def real(name: str) -> dict[str, list[Any]]:
    return described()[name]


def static() -> BrokerLayers:
    return BrokerLayers(kafka_static())


def altered() -> BrokerLayers:
    return BrokerLayers(kafka_static(), DYNAMIC_DEFAULT, DYNAMIC_BROKER)


@pytest.mark.usefixtures("kafkas_defaults")
class TestAsKafka:
    def test_a_topic_without_overrides(self):
        assert fields(describe_topic({}, static(), ALL)) == real("topic_plain")

    def test_a_topic_with_overrides(self):
        overrides = {"retention.ms": "86400000", "cleanup.policy": "compact,delete", "segment.bytes": "1048576"}
        assert fields(describe_topic(overrides, static(), ALL)) == real("topic_described")

    def test_a_broker(self):
        assert fields(describe_broker(static(), ALL)) == real("broker")

    def test_no_dynamic_defaults(self):
        assert fields(describe_broker_default(static(), ALL)) == real("broker_default") == {}

    def test_a_topic_after_dynamic_changes(self):
        assert fields(describe_topic({}, altered(), ALL)) == {**real("topic_plain"), **real("altered_topic_plain")}

    def test_a_broker_after_dynamic_changes(self):
        assert fields(describe_broker(altered(), ALL)) == {**real("broker"), **real("altered_broker")}

    def test_dynamic_defaults(self):
        assert fields(describe_broker_default(altered(), ALL)) == real("altered_broker_default")

    def test_a_group(self):
        assert fields(describe_group({}, static(), ALL)) == real("group")


def test_keys_limit_the_answer_and_none_means_all():
    entries = describe_topic({}, static(), DescribeOptions(keys=("segment.ms", "nope")))
    assert [e.name for e in entries] == ["segment.ms"]
    assert entries[0].synonyms == ()
    assert len(describe_topic({}, static(), DescribeOptions(keys=()))) == 33


def test_our_durability_shows_in_both_places():
    entry = fields(describe_topic({}, BrokerLayers({}), ALL))["flush.messages"]
    assert entry[0] == "1"
    assert entry[5] == [["log.flush.interval.messages", "1", "DEFAULT_CONFIG"]]


def test_documentation_is_ours_and_only_on_demand():
    assert describe_topic({}, static(), DescribeOptions())[0].documentation is None
    assert all(e.documentation for e in describe_topic({}, static(), DescribeOptions(documentation=True)))


def test_unknown_settings_are_sensitive():
    layers = BrokerLayers({"some.plugin.token": "s3cret", "ssl.key.password": "s3cret"})
    entries = {e.name: e for e in describe_broker(layers, ALL)}
    for name in ("some.plugin.token", "ssl.key.password"):
        assert entries[name].is_sensitive
        assert entries[name].value is None
        assert [s.value for s in entries[name].synonyms] == [None]


def test_internal_configs_show_only_where_they_are_set():
    assert "internal.segment.bytes" not in fields(describe_topic({}, static(), ALL))
    assert (
        fields(describe_topic({"internal.segment.bytes": "1000"}, static(), ALL))["internal.segment.bytes"][0] == "1000"
    )


def test_a_groups_override_comes_first():
    entry = fields(describe_group({"consumer.session.timeout.ms": "50000"}, BrokerLayers({}), ALL))
    assert entry["consumer.session.timeout.ms"][5] == [
        ["consumer.session.timeout.ms", "50000", "GROUP_CONFIG"],
        ["group.consumer.session.timeout.ms", "45000", "DEFAULT_CONFIG"],
    ]
