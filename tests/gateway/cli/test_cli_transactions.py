"""`odradek transactions` against a broker, with a producer whose transaction is open, and one that hangs."""

import json

import pytest
from confluent_kafka import Producer

from odradek.gateway.cli.client import Target, open_admin, topic_partition
from odradek.gateway.cli.hanging import OpenTransaction, find_hanging
from odradek.gateway.cli.options import parse_moment_ms


@pytest.fixture
def opened(bootstrap, topic):
    """A producer with an open transaction in partition 0; its transactional id is the topic's name."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    yield producer
    producer.abort_transaction(30)


def described(odradek, name):
    [found] = json.loads(odradek("transactions", "describe", name, "--json").stdout)
    return found


def test_list(odradek, topic, opened):
    [mine] = [
        one for one in json.loads(odradek("transactions", "list", "--json").stdout) if one["transactional_id"] == topic
    ]
    assert mine["state"] == "Ongoing"
    assert [topic, "1", str(mine["producer_id"]), "Ongoing"] in [
        line.split() for line in odradek("transactions", "list").stdout.splitlines()
    ]
    producer_id = str(mine["producer_id"])
    for arguments, found in [
        (["--state", "Ongoing"], True),
        (["--state", "Empty"], False),
        (["--producer-id", producer_id], True),
        (["--producer-id", "999999"], False),
        (["--longer-than", "PT1H"], False),
    ]:
        assert (topic in odradek("transactions", "list", *arguments).stdout) is found


def test_describe(odradek, topic, opened):
    found = described(odradek, topic)
    assert (found["state"], found["partitions"], found["timeout_ms"]) == ("Ongoing", [f"{topic}-0"], 60_000)
    assert parse_moment_ms(found["started"]) > 0
    shown = odradek("transactions", "describe", topic).stdout
    assert f"{topic}-0" in shown
    assert "TRANSACTIONAL_ID_NOT_FOUND" in odradek("transactions", "describe", "nobody", code=1).stderr


def test_describe_producers(odradek, topic, opened):
    found = json.loads(odradek("transactions", "describe-producers", topic, "--json").stdout)
    assert [(one["partition"], one["epoch"], one["open_since"]) for one in found] == [(0, 0, 0)]
    assert found[0]["producer_id"] == described(odradek, topic)["producer_id"]
    assert odradek("transactions", "describe-producers", f"{topic}:1").stdout.count("\n") == 1
    assert "no partition 7" in odradek("transactions", "describe-producers", f"{topic}:7", code=1).stderr
    odradek("transactions", "describe-producers", f"{topic}:x", code=2)


def test_a_transaction_of_a_coordinator_does_not_hang(odradek, topic, opened):
    assert json.loads(odradek("transactions", "find-hanging", "--older-than", "PT0S", "--json").stdout) == []
    assert odradek("transactions", "find-hanging", "--topic", topic).stdout.startswith("TOPIC")


def test_abort(odradek, topic, opened):
    partition = f"{topic}:0"
    assert "since offset 5" in odradek("transactions", "abort", partition, "--start-offset", "5", code=1).stderr
    assert "is aborted" in odradek("transactions", "abort", partition, "--start-offset", "0").stderr
    found = json.loads(odradek("transactions", "describe-producers", partition, "--json").stdout)
    assert [one["open_since"] for one in found] == [None]


def test_abort_by_producer(odradek, topic, opened):
    producer_id = str(described(odradek, topic)["producer_id"])
    whose = ("--producer-id", producer_id, "--epoch")
    assert "0<=x<=32767" in odradek("transactions", "abort", f"{topic}:0", *whose, "-1", code=2).stderr
    odradek("transactions", "abort", f"{topic}:0", *whose, "0")


def test_abort_requires_one_partition_and_one_transaction(odradek, topic):
    assert "one partition" in odradek("transactions", "abort", topic, "--start-offset", "0", code=2).stderr
    assert "either" in odradek("transactions", "abort", f"{topic}:0", code=2).stderr
    assert "either" in odradek("transactions", "abort", f"{topic}:0", "--producer-id", "1", code=2).stderr


class ForgetfulAdmin:
    """A cluster whose coordinators have lost the partitions of their transactions, which our brokers never do."""

    def __init__(self, admin):
        self._admin = admin

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def describe_transactions(self, names):
        described = self._admin.describe_transactions(names)
        return {name: found._replace(topic_partitions=set()) for name, found in described.items()}


def test_find_hanging(bootstrap, topic, opened):
    target = Target(bootstrap)
    with open_admin(target) as admin:
        forgetful = ForgetfulAdmin(admin)
        [(partition, found)] = find_hanging(target, forgetful, [(topic, ())], 2**60)
        assert partition == topic_partition(topic, 0)
        assert found == OpenTransaction(found.producer_id, 0, -1, 0, found.last_write_ms)
        assert find_hanging(target, forgetful, [(topic, (1,))], 2**60) == []
        assert find_hanging(target, forgetful, [(topic, ())], 0) == []
        assert find_hanging(target, admin, [(topic, ())], 2**60) == []


def test_list_by_pattern(odradek, topic, opened):
    for pattern, found in [(topic, True), (topic[:-1], False), (f"(?i){topic[:-1].upper()}.", True), ("", True)]:
        assert (topic in odradek("transactions", "list", "--pattern", pattern).stdout) is found
    refused = odradek("transactions", "list", "--pattern", "(", code=1)
    assert refused.stderr == "odradek: INVALID_REGULAR_EXPRESSION: The regular expression is not valid\n"
