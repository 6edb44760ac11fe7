"""Pure functions of the command line: times, durations, start positions, plans, formats, errors."""

import json
import re
from types import SimpleNamespace

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.gateway.cli.client import TopicPartition, library, split_address
from odradek.gateway.cli.clients.kafka_python import ACCESS
from odradek.gateway.cli.errors import CliError, UnreachableError, broker_error_text, client_error_text, explained
from odradek.gateway.cli.formats import check_layout, formatter, parse_json_record
from odradek.gateway.cli.offset_plan import Goal, Situation, plan
from odradek.gateway.cli.options import parse_duration_ms, parse_moment_ms, property_value
from odradek.gateway.cli.positions import Start, parse_start

HERE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("PT0.5S", 500), ("-PT1S", -1000), ("P2DT3S", 172_803_000)],
)
def test_durations(text, length_ms):
    assert parse_duration_ms(text) == length_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1Y", "PT1H30", "P1H"])
def test_no_durations(text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        parse_duration_ms(text)


def test_times_are_utc_unless_they_say_otherwise():
    assert parse_moment_ms("1970-01-02") == 86_400_000
    assert parse_moment_ms("1970-01-01T00:00:01.250") == 1250
    assert parse_moment_ms("1970-01-01T01:00:00+01:00") == 0


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start()),
        ("latest", Start(latest=True)),
        ("7", Start(offset=7)),
        ("-7", Start(last=7)),
        ("1970-01-01T00:00:01Z", Start(time_ms=1000)),
    ],
)
def test_start_positions(text, start):
    assert parse_start(text) == start


@given(
    st.integers(0, 100),
    st.integers(0, 100),
    st.one_of(st.none(), st.integers(0, 300)),
    st.sampled_from(["to_earliest", "to_latest", "to_current"]) | st.integers(-400, 400),
)
def test_a_plan_stays_within_the_partition(start, length, committed, wanted):
    goal = Goal(**{wanted: True}) if isinstance(wanted, str) else Goal(to_offset=wanted)
    (step,) = plan(goal, {HERE: Situation(start, start + length, committed)})
    assert start <= step.target <= start + length


def test_a_shift_needs_a_committed_offset():
    assert plan(Goal(shift_by=-3), {HERE: Situation(0, 10, 5)})[0].target == 2
    with pytest.raises(CliError, match="t-0 has no committed offset"):
        plan(Goal(shift_by=-3), {HERE: Situation(0, 10)})


def printed(layout: str, one: SimpleNamespace) -> bytes:
    [line] = formatter(layout, ACCESS)([one])
    return line


def record(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> SimpleNamespace:
    return SimpleNamespace(topic="t", partition=3, offset=7, timestamp=1250, key=key, value=value, headers=headers)


@given(
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.binary())),
)
def test_json_round_trip(key, value, headers):
    read = parse_json_record(printed("json", record(key, value, headers)))
    assert (read.key, read.value, list(read.headers), read.timestamp_ms) == (key, value, headers, 1250)


def test_values_that_are_json_themselves_are_sent_compactly():
    read = parse_json_record(b'{"key": 5, "value": {"a": [1, null]}, "headers": {"h": "v"}}')
    assert (read.key, read.value, list(read.headers)) == (b"5", b'{"a":[1,null]}', [("h", b"v")])


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b'{"headers": 3}', b'{"headers": ["x"]}', b'{"timestamp": "now"}'])
def test_lines_that_are_no_records(line):
    with pytest.raises(ValueError):  # noqa: PT011 - any message will do, the line number is put before it
        parse_json_record(line)


def test_named_formats():
    one = record(b"k", None, [("h", b"v"), ("n", None)])
    assert printed("value", one) == b"null\n"
    assert printed("key-value", one) == b"k\tnull\n"
    assert printed("full", one) == b"t-3@7 1970-01-01T00:00:01.250Z k null h=v,n=null\n"
    assert printed("{timestamp} {key}", one) == b"1250 k\n"
    assert json.loads(printed("json", one))["offset"] == 7


def test_a_format_prints_each_record_of_many():
    many = [record(b"a", b"1", []), record(b"b", b"2", [])]
    assert formatter("{key}={value}", ACCESS)(many) == [b"a=1\n", b"b=2\n"]
    assert formatter("value", ACCESS)(many) == [b"1\n", b"2\n"]


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63)])
def test_any_timestamp_can_be_printed(timestamp):
    odd = record(None, b"v", [])
    odd.timestamp = timestamp
    assert printed("{time}", odd) == b"%d\n" % timestamp


@pytest.mark.parametrize("layout", ["value", "key-value", "full", "json", "{key}", r"{value}\0", '{"k": {key}}'])
def test_formats(layout):
    check_layout(layout)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("table", "'table' is neither value, key-value, full, json nor a template"),
        ("", "neither"),
        ("%s", "neither"),
        ("{what}", "unknown field {what}; there are topic, partition, offset"),
        ("{offset:05d}", "unknown field {offset:05d}"),
        (r"{key}\q", r"unknown escape \q; there are \t \n"),
        ("{key}\\", "unknown escape"),
    ],
)
def test_no_formats(layout, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        check_layout(layout)


def test_addresses():
    assert split_address("broker:1234") == ("broker", 1234)
    assert split_address("broker") == ("broker", 9092)
    assert split_address("[::1]:1234") == ("::1", 1234)
    assert split_address("[::1]") == ("::1", 9092)
    for wrong in ("", "host:", "host:port", "host:0", "host:70000"):
        with pytest.raises(click.BadParameter):
            split_address(wrong)


def test_client_settings_become_numbers_and_booleans():
    assert [property_value(text) for text in ("5", "-1", "true", "FALSE", "SASL_SSL")] == [
        5,
        -1,
        True,
        False,
        "SASL_SSL",
    ]


def test_error_texts_name_kafkas_error():
    errors = library().errors
    assert broker_error_text(36, "it is there") == "TOPIC_ALREADY_EXISTS: it is there"
    assert broker_error_text(128) == "INVALID_REGULAR_EXPRESSION: The regular expression is not valid"
    assert broker_error_text(9999, "who knows") == "error 9999: who knows"
    assert client_error_text("[Error 40] InvalidConfigurationError: no such key") == "INVALID_CONFIG: no such key"
    assert client_error_text("NonEmptyGroupError").startswith("NON_EMPTY_GROUP: ")
    refusal = explained(errors.UnknownTopicOrPartitionError())
    assert isinstance(refusal, CliError)
    assert refusal.message.startswith("UNKNOWN_TOPIC_OR_PARTITION: ")
    assert isinstance(explained(errors.KafkaConnectionError("gone")), UnreachableError)
    assert explained(ValueError("ours")) is None
