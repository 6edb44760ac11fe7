"""`odradek groups` against a broker."""

import json
import re

import pytest
from confluent_kafka import Consumer

from odradek.gateway.cli.client import Target, library, open_consumer


@pytest.fixture
def group(odradek, topic):
    """A group without members that has read three records of partition 0 and one of partition 1."""
    odradek("produce", topic, "-p", "0", stdin="1\n2\n3\n")
    odradek("produce", topic, "-p", "1", stdin="4\n")
    odradek("consume", topic, "--group", f"of-{topic}")
    return f"of-{topic}"


def offsets(odradek, group: str) -> dict[int, tuple[int, int]]:
    described = json.loads(odradek("groups", "describe", group, "--json").stdout)[0]
    return {offset["partition"]: (offset["committed"], offset["lag"]) for offset in described["offsets"]}


def moved(result) -> dict[int, int]:
    return {step["partition"]: step["new_offset"] for step in json.loads(result.stdout)}


def test_list(odradek, group):
    assert [group, "classic", "Empty", "consumer"] in [
        line.split() for line in odradek("groups", "list").stdout.splitlines()
    ]
    states = {each["group_id"]: each["group_state"] for each in json.loads(odradek("groups", "list", "--json").stdout)}
    assert states[group] == "Empty"
    assert group in odradek("groups", "list", "--state", "Empty").stdout
    assert group not in odradek("groups", "list", "--state", "Stable").stdout
    odradek("groups", "list", "--state", "Nonsense", code=2)


def test_describe_shows_lag(odradek, topic, group):
    odradek("produce", topic, "-p", "0", stdin="5\n6\n")
    assert offsets(odradek, group) == {0: (3, 2), 1: (1, 0)}
    assert "Empty, 0 members, lag 2" in odradek("groups", "describe", group).stdout


def test_unknown_lag_is_not_shown_as_0(odradek, bootstrap, topic):
    odradek("produce", topic, "-p", "0", stdin="1\n2\n")
    with open_consumer(Target(bootstrap), group_id="unknown-lag") as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(5000)
        assert "1 member, lag unknown\n" in odradek("groups", "describe", "unknown-lag").stdout
        odradek("groups", "describe", "unknown-lag", "--json")
        consumer.commit({library().TopicPartition(topic, 0): library().OffsetAndMetadata(0, "", -1)})
        assert "1 member, lag 2 in 1 of 2 partitions\n" in odradek("groups", "describe", "unknown-lag").stdout


def test_describe_shows_members_and_refuses_to_touch_their_group(odradek, bootstrap, topic):
    with open_consumer(Target(bootstrap), group_id="busy", client_id="worker") as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(5000)  # a short poll may lose the assignment in kafka-python 3.0.12
        described = json.loads(odradek("groups", "describe", "busy", "--json").stdout)[0]
        assert described["state"] == "Stable"
        assert described["members"][0]["client"] == "worker"
        assert described["members"][0]["partitions"] == [f"{topic}-0", f"{topic}-1"]
        assert {offset["committed"] for offset in described["offsets"]} == {None}
        assert "NON_EMPTY_GROUP" in odradek("groups", "delete", "busy", code=1).stderr
        reset = odradek("groups", "reset-offsets", "busy", "-t", topic, "--to-latest", "--execute", code=1)
        assert "only while no member runs" in reset.stderr


def test_a_group_of_the_consumer_protocol(odradek, bootstrap, topic):
    settings = {"bootstrap.servers": bootstrap, "group.id": "new", "group.protocol": "consumer"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    assert ["new", "consumer", "Stable", "consumer"] in [
        line.split() for line in odradek("groups", "list").stdout.splitlines()
    ]
    assert "new: Stable" in odradek("groups", "describe", "new").stdout
    assert "NON_EMPTY_GROUP" in odradek("groups", "delete", "new", code=1).stderr
    odradek("groups", "reset-offsets", "new", "-t", topic, "--to-latest", "--execute", code=1)
    consumer.close()
    assert "new: Empty" in odradek("groups", "describe", "new").stdout
    odradek("groups", "delete", "new")


def test_describe_and_delete_of_a_missing_group(odradek):
    assert "'nobody' does not exist" in odradek("groups", "describe", "nobody", code=1).stderr
    assert "GROUP_ID_NOT_FOUND" in odradek("groups", "delete", "nobody", code=1).stderr


def test_delete(odradek, group):
    odradek("groups", "delete", group)
    assert group not in odradek("groups", "list").stdout.split()


def test_offsets_of_a_deleted_topic_do_not_break_describe(odradek, topic, group):
    odradek("topics", "delete", topic)
    odradek("topics", "create", "elsewhere", "--if-not-exists")
    odradek("groups", "reset-offsets", group, "-t", "elsewhere", "--to-latest", "--execute")
    assert "elsewhere" in odradek("groups", "describe", group).stdout


def test_reset_is_a_dry_run_by_default(odradek, topic, group):
    planned = odradek("groups", "reset-offsets", group, "-t", topic, "--to-earliest", "--json")
    assert moved(planned) == {0: 0, 1: 0}
    assert "dry run" in planned.stderr
    assert offsets(odradek, group) == {0: (3, 0), 1: (1, 0)}


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 3, 1: 1}),
        (["--to-current"], {0: 3, 1: 1}),
        (["--to-offset", "2"], {0: 2, 1: 1}),
        (["--shift-by", "-2"], {0: 1, 1: 0}),
        (["--to-datetime", "2013-01-01"], {0: 0, 1: 0}),
        (["--to-datetime", "2999-01-01T00:00:00Z"], {0: 3, 1: 1}),
        (["--by-duration", "P1D"], {0: 0, 1: 0}),
        (["--by-duration", "-P1D"], {0: 3, 1: 1}),
    ],
)
def test_reset_goals(odradek, topic, group, goal, expected):
    assert moved(odradek("groups", "reset-offsets", group, "--all-topics", *goal, "--execute", "--json")) == expected
    assert {partition: offset for partition, (offset, _) in offsets(odradek, group).items()} == expected


def test_reset_of_chosen_partitions_and_of_a_new_group(odradek, topic, group):
    assert moved(odradek("groups", "reset-offsets", group, "-t", f"{topic}:1", "--to-earliest", "--json")) == {1: 0}
    odradek("groups", "reset-offsets", "brand-new", "-t", f"{topic}:0", "--to-offset", "2", "--execute")
    assert offsets(odradek, "brand-new") == {0: (2, 1)}


def test_reset_refusals(odradek, topic, group):
    reset = ("groups", "reset-offsets")
    assert "exactly one of" in odradek(*reset, group, "-t", topic, code=2).stderr
    assert "exactly one of" in odradek(*reset, group, "-t", topic, "--to-latest", "--to-earliest", code=2).stderr
    named = re.findall(r"--[a-z-]+", odradek(*reset, group, "-t", topic, code=2).stderr.partition("exactly one")[2])
    assert len(named) == 8
    assert set(named) <= set(re.findall(r"--[a-z-]+", odradek(*reset, "--help").stdout))
    assert "--all-topics" in odradek(*reset, group, "--to-latest", code=2).stderr
    assert "exclude" in odradek(*reset, group, "-t", topic, "--to-latest", "--execute", "--dry-run", code=2).stderr
    assert "no partition 9" in odradek(*reset, group, "-t", f"{topic}:9", "--to-latest", code=1).stderr
    assert "does not exist" in odradek(*reset, group, "-t", "absent", "--to-latest", code=1).stderr
    assert "no committed offset" in odradek(*reset, "new", "-t", topic, "--shift-by", "1", code=1).stderr
    assert "name topics" in odradek(*reset, "new", "--all-topics", "--to-latest", code=1).stderr
    odradek(*reset, group, "-t", "x:y", "--to-latest", code=2)
    odradek(*reset, group, "-t", topic, "--by-duration", "1 hour", code=2)


def test_offsets_go_out_as_lines_and_come_back(odradek, topic, group, tmp_path):
    exported = odradek("groups", "reset-offsets", group, "-t", topic, "--to-current", "--export")
    assert exported.stdout == f"{topic},0,3\n{topic},1,1\n"
    lines = tmp_path / "offsets.csv"
    lines.write_text(f'{topic},0,1\n\n"{topic}", 1, 99\n')
    assert moved(odradek("groups", "reset-offsets", group, "--from-file", str(lines), "--execute", "--json")) == {
        0: 1,
        1: 1,
    }
    assert offsets(odradek, group) == {0: (1, 2), 1: (1, 0)}


@pytest.mark.parametrize("text", ["hello\n", "hello,0\n", "hello,zero,1\n", "hello,0,-1\n", "hello,0,1,2,3\n"])
def test_lines_that_are_no_offsets(odradek, tmp_path, text):
    lines = tmp_path / "offsets.csv"
    lines.write_text("hello,0,1\n" + text)
    refused = odradek("groups", "reset-offsets", "g", "--from-file", str(lines), code=2)
    assert "line 2 is not TOPIC,PARTITION,OFFSET" in refused.stderr
    odradek("groups", "reset-offsets", "g", "--from-file", str(tmp_path / "none"), code=2)
    odradek("groups", "reset-offsets", "g", "--from-file", str(lines), "--all-topics", code=2)


def test_parts_of_a_description(odradek, group):
    outputs = {
        part: odradek("groups", "describe", group, f"--{part}").stdout for part in ("state", "members", "offsets")
    }
    assert "COMMITTED" in outputs["offsets"]
    assert "COMMITTED" not in outputs["state"] + outputs["members"]
    assert all("Empty, 0 members, lag 0" in text for text in outputs.values())
    assert group in odradek("groups", "describe", "--all-groups").stdout
    odradek("groups", "describe", code=2)
    odradek("groups", "describe", group, "--all-groups", code=2)


def test_list_by_type(odradek, group):
    assert group in odradek("groups", "list", "--type", "classic").stdout
    assert group not in odradek("groups", "list", "--type", "consumer").stdout


def test_delete_offsets(odradek, topic, group):
    gone = odradek("groups", "delete-offsets", group, "-t", f"{topic}:1")
    assert f"{topic}-1: offset of group {group!r} deleted" in gone.stderr
    assert offsets(odradek, group) == {0: (3, 0)}
    assert (
        "no offsets of topic 'elsewhere'"
        in odradek("groups", "delete-offsets", group, "-t", "elsewhere", code=1).stderr
    )
    odradek("groups", "delete-offsets", group, "-t", topic)
    assert offsets(odradek, group) == {}
