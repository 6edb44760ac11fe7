"""`odradek topics` against a broker."""

import json


def test_create_prints_what_it_did_and_describe_shows_it(odradek):
    created = odradek("topics", "create", "made", "-p", "3", "-c", "retention.ms=1000")
    assert "'made' created" in created.stderr
    assert created.stdout == ""
    described = json.loads(odradek("topics", "describe", "made", "--json").stdout)
    assert [partition["partition"] for partition in described[0]["partitions"]] == [0, 1, 2]
    assert described[0]["configs"] == {"retention.ms": "1000"}
    assert described[0]["replication_factor"] == 1
    text = odradek("topics", "describe", "made").stdout
    assert "retention.ms=1000" in text
    assert text.splitlines()[2].split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END"]


def test_create_again_fails_without_if_not_exists(odradek, topic):
    assert "TOPIC_ALREADY_EXISTS" in odradek("topics", "create", topic, code=1).stderr
    assert "exists already" in odradek("topics", "create", topic, "--if-not-exists").stderr


def test_create_reports_every_failure_and_makes_the_others(odradek):
    failed = odradek("topics", "create", "good", "b@d", "w@rse", code=1)
    assert "'b@d': INVALID_TOPIC" in failed.stderr
    assert "'w@rse': INVALID_TOPIC" in failed.stderr
    assert "'good' created" in failed.stderr


def test_create_with_an_unknown_config_shows_the_brokers_message(odradek):
    failed = odradek("topics", "create", "odd", "-c", "nope=1", code=1)
    assert "INVALID_CONFIG" in failed.stderr
    assert "nope" in failed.stderr


def test_dry_run_creates_nothing(odradek):
    odradek("topics", "create", "imagined", "--dry-run")
    assert "imagined" not in odradek("topics", "list").stdout.split()


def test_list_is_one_name_a_line_sorted(odradek):
    odradek("topics", "create", "list-b", "list-a")
    names = odradek("topics", "list").stdout.splitlines()
    assert names == sorted(names)
    assert {"list-a", "list-b"} <= set(names)


def test_list_hides_internal_topics_unless_asked(odradek):
    odradek("groups", "reset-offsets", "anyone", "--topic", "internal-probe", "--to-latest", code=1)
    assert "__consumer_offsets" not in odradek("topics", "list").stdout
    assert "__consumer_offsets" in odradek("topics", "list", "--internal").stdout


def test_list_long_and_json(odradek, topic):
    assert [topic, "2", "1"] in [line.split() for line in odradek("topics", "list", "--long").stdout.splitlines()]
    listed = json.loads(odradek("topics", "list", "--json").stdout)
    assert {"name": topic, "internal": False, "partitions": 2, "replication_factor": 1} in listed


def test_alter_adds_partitions_sets_and_deletes_configs(odradek, topic):
    odradek("topics", "alter", topic, "-p", "4", "-c", "segment.ms=70000", "-c", "retention.ms=5")
    odradek("topics", "alter", topic, "-d", "retention.ms")
    described = json.loads(odradek("topics", "describe", topic, "--json").stdout)[0]
    assert len(described["partitions"]) == 4
    assert described["configs"] == {"segment.ms": "70000"}


def test_alter_refusals(odradek, topic):
    assert "INVALID_PARTITIONS" in odradek("topics", "alter", topic, "-p", "1", code=1).stderr
    assert "INVALID_CONFIG" in odradek("topics", "alter", topic, "-c", "nope=1", code=1).stderr
    assert "nothing to alter" in odradek("topics", "alter", topic, code=2).stderr


def test_all_configs_shows_defaults(odradek, topic):
    described = json.loads(odradek("topics", "describe", topic, "--json", "--all-configs").stdout)[0]
    assert described["configs"]["cleanup.policy"] == "delete"


def test_delete(odradek, topic):
    assert f"{topic!r} deleted" in odradek("topics", "delete", topic).stderr
    assert topic not in odradek("topics", "list").stdout.split()
    assert "UNKNOWN_TOPIC_OR_PARTITION" in odradek("topics", "delete", topic, code=1).stderr
    assert "does not exist" in odradek("topics", "delete", topic, "--if-exists").stderr


def test_describe_of_a_missing_topic_does_not_create_it(odradek):
    assert "'absent' does not exist" in odradek("topics", "describe", "absent", code=1).stderr
    assert "absent" not in odradek("topics", "list").stdout.split()
