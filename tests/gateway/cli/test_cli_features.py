"""`odradek features` against a broker, and conventions of Kafka's tools that all commands follow."""

import json

import pytest


def levels(odradek):
    found = json.loads(odradek("features", "describe", "--json").stdout)
    return {each["feature"]: each["level"] for each in found}


def test_describe(odradek):
    assert levels(odradek)["metadata.version"] == 30
    lines = [line.split() for line in odradek("features", "describe").stdout.splitlines()]
    assert lines[0] == ["FEATURE", "MIN", "MAX", "LEVEL", "EPOCH"]
    assert ["metadata.version", "7", "30", "30"] in [line[:4] for line in lines]


@pytest.mark.parametrize("spelled", [["metadata.version=30"], ["--feature", "metadata.version=30"]])
def test_upgrade(odradek, spelled):
    assert "can be set to level 30" in odradek("features", "upgrade", *spelled, "--dry-run").stderr
    assert "set to level 30" in odradek("features", "upgrade", *spelled).stderr


def test_what_the_broker_refuses(odradek):
    for arguments in (
        ("upgrade", "metadata.version=31"),
        ("downgrade", "metadata.version=29"),
        ("downgrade", "metadata.version=29", "--unsafe"),
        ("disable", "metadata.version"),
        ("upgrade", "metadata.version=30", "no.such=1"),
    ):
        refused = odradek("features", *arguments, code=1).stderr
        assert refused.startswith("odradek: INVALID_UPDATE_VERSION: Nothing was updated: ")
        assert "Request" not in refused, "the broker's message alone"
    assert levels(odradek)["metadata.version"] == 30


@pytest.mark.parametrize(
    "arguments",
    [("upgrade",), ("upgrade", "a"), ("upgrade", "a=b"), ("upgrade", "a=1", "a=2"), ("disable",), ("downgrade",)],
)
def test_wrong_usage(odradek, arguments):
    odradek("features", *arguments, code=2)


def test_kafkas_name_of_the_bootstrap_option(bootstrap, odradek, topic):
    for command in (("topics", "list"), ("groups", "list"), ("features", "describe")):
        odradek(*command, "--bootstrap-server", bootstrap)
    sent = odradek("produce", topic, "--bootstrap-server", bootstrap, stdin="one\n")
    assert sent.stderr.startswith("1 record (3 bytes)")
    assert odradek("consume", topic, "--bootstrap-server", bootstrap).stdout == "one\n"
