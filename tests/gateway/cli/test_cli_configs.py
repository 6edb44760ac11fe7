"""`odradek configs`: the list of settings, and the settings of topics, brokers and groups."""

import json
from pathlib import Path

import pytest

from odradek.coordinator.configs.tables import BROKER_CONFIGS

ROOT = Path(__file__).parents[3]


def described(odradek, kind, name, *options):
    (found,) = json.loads(odradek("configs", "describe", kind, name, "--json", *options).stdout)
    assert (found["kind"], found["name"]) == (kind, name)
    return {setting: (entry["value"], entry["source"]) for setting, entry in found["configs"].items()}


def test_every_setting_is_listed_with_type_default_and_effect(odradek):
    rows = {(row["scope"], row["name"]): row for row in json.loads(odradek("configs", "list", "--json").stdout)}
    assert {name for scope, name in rows if scope == "broker"} == set(BROKER_CONFIGS)
    acting = rows["broker", "num.partitions"]
    assert (acting["type"], acting["default"], acting["effect"]) == ("int", "1", "acts")
    assert acting["changes"] == "at the next start"
    assert rows["broker", "log.retention.ms"]["changes"] == "at once"
    assert rows["broker", "authorizer.class.name"]["effect"] == "refused"
    idle = rows["topic", "preallocate"]
    assert idle["effect"] == "none"
    assert "without the index files" in idle["reason"]
    lines = odradek("configs", "list", "--scope", "group").stdout.splitlines()
    assert lines[0].split() == ["OF", "NAME", "TYPE", "DEFAULT", "A", "CHANGE", "ACTS", "EFFECT"]
    wanted = "group consumer.session.timeout.ms int 45000 at once acts"
    assert wanted in [" ".join(line.split()) for line in lines]
    without = odradek("configs", "list", "--scope", "broker", "--without-effect").stdout
    assert "num.io.threads" in without
    assert "num.partitions" not in without


def test_the_page_of_the_documentation_is_printed(odradek):
    assert odradek("configs", "list", "--markdown").stdout == (ROOT / "docs" / "settings.md").read_text()


def test_a_topic(odradek, topic):
    assert described(odradek, "topic", topic) == {}
    said = odradek("configs", "alter", "topic", topic, "--set", "retention.ms=8", "--append", "cleanup.policy=compact")
    assert said.stderr == f"topic {topic!r}: cleanup.policy, retention.ms changed\n"
    source = "dynamic_topic_config"
    wanted = {"cleanup.policy": ("delete,compact", source), "retention.ms": ("8", source)}
    assert described(odradek, "topic", topic) == wanted
    odradek("configs", "alter", "topic", topic, "--unset", "retention.ms", "--subtract", "cleanup.policy=delete")
    assert described(odradek, "topic", topic) == {"cleanup.policy": ("compact", source)}
    everything = described(odradek, "topic", topic, "--all")
    assert everything["retention.ms"] == ("604800000", "default_config")
    plain = odradek("configs", "describe", "topic", topic).stdout
    assert plain == f"topic {topic}\n  cleanup.policy=compact  (dynamic topic config)\n"


def test_a_dry_run_changes_nothing(odradek, topic):
    said = odradek("configs", "alter", "topic", topic, "-s", "retention.ms=8", "--dry-run").stderr
    assert said == f"topic {topic!r}: retention.ms can be changed\n"
    assert described(odradek, "topic", topic) == {}


@pytest.mark.parametrize("broker", ["1", "default"])
def test_brokers_one_and_all(odradek, broker):
    setting = "log.retention.ms" if broker == "1" else "log.segment.bytes"
    odradek("configs", "alter", "broker", broker, "--set", f"{setting}=86400000")
    try:
        source = "dynamic_broker_config" if broker == "1" else "dynamic_default_broker_config"
        assert described(odradek, "broker", broker)[setting] == ("86400000", source)
    finally:
        odradek("configs", "alter", "broker", broker, "--unset", setting)
    assert setting not in described(odradek, "broker", broker)


def test_a_group_and_a_metrics_subscription(odradek):
    odradek("configs", "alter", "group", "readers", "--set", "consumer.session.timeout.ms=50000")
    assert described(odradek, "group", "readers") == {"consumer.session.timeout.ms": ("50000", "dynamic_group_config")}
    odradek("configs", "alter", "client-metrics", "all", "--set", "metrics=*")
    assert described(odradek, "client-metrics", "all")["metrics"][0] == "*"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "topic", "nope"), "topic 'nope' does not exist"),
        (("alter", "topic", "nope", "-s", "retention.ms=1"), "topic 'nope': UNKNOWN_TOPIC_OR_PARTITION"),
        (("describe", "broker", "7"), "there is no broker '7': the cluster has 1; 'default' stands for all"),
        (("alter", "broker", "1", "-s", "num.partitions=2"), "Cannot update these configs dynamically"),
        (("alter", "broker", "1", "-s", "ssl.client.auth=required"), "ssl.client.auth promises TLS"),
        (("alter", "group", "g", "-s", "nope=1"), "Unknown group config name: nope"),
    ],
)
def test_refusals_are_one_line(odradek, arguments, message):
    said = odradek("configs", *arguments, code=1).stderr
    assert said.startswith("odradek: ")
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("alter", "topic", "t"),
        ("alter", "topic", "t", "-s", "retention.ms"),
        ("alter", "topic", "t", "-s", "a=1", "-u", "a"),
        ("describe", "topic"),
        ("describe", "user", "alice"),
    ],
)
def test_wrong_usage(odradek, arguments):
    odradek("configs", *arguments, code=2)
