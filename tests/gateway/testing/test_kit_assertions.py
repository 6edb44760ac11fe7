"""`assert_produced` and `assert_not_produced`: what matches, how long they wait, and what they say."""

import json
import threading
from unittest.mock import ANY

import pytest

import odradek
from odradek.gateway.testing.kit.errors import UnknownTopicError
from odradek.gateway.testing.kit.expecting import Expectation, Search, described, has_headers, is_like
from odradek.gateway.testing.kit.values import Record


@pytest.fixture(scope="module")
def kafka():
    with odradek.broker() as running:
        yield running


def record(key=b"k", value=b"v", headers=(), offset=0):
    return Record("t", 0, offset, 0, key, value, tuple(headers))


class Matcher:
    """As a matcher of PyHamcrest."""

    def matches(self, item):
        return item.startswith(b"v")


@pytest.mark.parametrize(
    ("expected", "actual", "matches"),
    [
        (b"v", b"v", True),
        ("größe", "größe".encode(), True),
        ("v", b"w", False),
        (None, None, True),
        (None, b"", False),
        (ANY, b"v", True),
        (Matcher(), b"v1", True),
        (Matcher(), b"w1", False),
        (lambda data: json.loads(data)["id"] == 1, b'{"id": 1}', True),
        (lambda data: json.loads(data)["id"] == 1, b'{"id": 2}', False),
    ],
)
def test_what_a_key_or_value_is_like(expected, actual, matches):
    assert is_like(expected, actual) is matches


@pytest.mark.parametrize(
    ("expected", "matches"),
    [
        ({"a": "1"}, True),
        ({"a": b"1", "b": None}, True),
        ({"a": "2"}, True),  # the name repeats
        ({"a": "3"}, False),
        ({"c": ANY}, False),
        ({}, True),
        ([("a", "1"), ("b", None), ("a", b"2")], True),
        ([("a", "1"), ("b", None)], False),
        (lambda headers: len(headers) == 3, True),
        (ANY, True),
    ],
)
def test_what_headers_are_like(expected, matches):
    assert has_headers(expected, (("a", b"1"), ("b", None), ("a", b"2"))) is matches


@pytest.mark.parametrize("wrong", [5, {"a": 1}, ["x"], 1.5, True])
def test_what_no_record_can_be_equal_to_is_refused(kafka, wrong):
    with pytest.raises(TypeError, match=r"value is a .*, and keys and values are bytes: .* json.loads\(data\)"):
        kafka.assert_produced("any", value=wrong)


def test_the_record_is_returned_and_what_was_there_before_counts(kafka):
    kafka.create_topics({"before": 2})
    made = kafka.produce_all("before", [{"value": "a", "partition": 1}, {"value": "b", "partition": 0}])
    assert kafka.assert_produced("before", value="a") == made[0]
    assert kafka.assert_produced("before") == made[1]  # the first of partition 0
    assert kafka.assert_produced("before", count=2) == [made[1], made[0]]
    assert kafka.assert_produced("before", partition=1) == made[0]


def test_it_waits_for_a_record_and_for_its_topic(kafka):
    found = []
    waiting = threading.Thread(
        target=lambda: found.append(kafka.assert_produced("later", value="here", within=60)), daemon=True
    )
    waiting.start()
    kafka.create_topics({"later": 3})
    kafka.produce("later", "not yet")
    made = kafka.produce("later", "here", partition=2)
    waiting.join(60)
    assert found == [made]


def test_new_partitions_are_read_too(kafka):
    from kafka.admin import KafkaAdminClient, NewPartitions

    kafka.create_topics({"growing": 1})
    found = []
    waiting = threading.Thread(
        target=lambda: found.append(kafka.assert_produced("growing", value="here", within=60)), daemon=True
    )
    waiting.start()
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.create_partitions({"growing": NewPartitions(2)})
    admin.close()
    made = kafka.produce("growing", "here", partition=1)
    waiting.join(60)
    assert found == [made]


def test_the_message_shows_the_nearest_records_and_what_differs(kafka):
    kafka.create_topics({"orders": 1})
    kafka.produce_all("orders", [{"value": f"other-{number}", "key": str(number)} for number in range(10)])
    kafka.produce("orders", "payd\x1b[31m", key="1", headers={"trace": "7"})
    with pytest.raises(AssertionError) as raised:
        kafka.assert_produced("orders", key="1", value="paid", headers={"trace": ANY}, within=0.01)
    first, second, nearest, *others = str(raised.value).split("\n")
    assert first.startswith("no record in 'orders' has key=b'1', value=b'paid', headers={'trace': <ANY>} after 0.")
    assert second == "of its 11 other records, the nearest:"
    assert nearest == ("  orders-0@10  key=b'1'  value=b'payd\\x1b[31m'  headers=(('trace', b'7'),)  <- other value")
    assert len(others) == 4


def test_the_message_of_a_wrong_count_shows_what_matches(kafka):
    kafka.create_topics({"counted": 1})
    kafka.produce_all("counted", ["a", "a", "b"])
    with pytest.raises(AssertionError, match=r"only 2 in 'counted' have value=b'a' \(expected 3\) after 0\."):
        kafka.assert_produced("counted", value="a", count=3, within=0.01)
    with pytest.raises(AssertionError, match="2 records in 'counted' match, and not 1: value=b'a'"):
        kafka.assert_produced("counted", value="a", count=1, within=60)
    with pytest.raises(ValueError, match="for none use assert_not_produced"):
        kafka.assert_produced("counted", count=0)


def test_the_message_without_records_or_topic(kafka):
    kafka.create_topics({"silent": 1})
    with pytest.raises(AssertionError, match=r"no record in 'silent' after 0\.\d s\nthe topic is empty"):
        kafka.assert_produced("silent", within=0.01)
    with pytest.raises(AssertionError, match=r"there is no topic 'silence'; did you mean 'silent'\?"):
        kafka.assert_produced("silence", within=0.01)


def test_a_predicate_that_raises_does_not_match_and_the_message_says_why(kafka):
    kafka.create_topics({"documents": 1})
    kafka.produce_all("documents", ["no json", '{"id": 1}'])
    assert kafka.assert_produced("documents", value=lambda data: json.loads(data)["id"] == 1).offset == 1
    with pytest.raises(AssertionError, match=r"<<lambda> at test_kit_assertions\.py:\d+>(.|\n)*JSONDecodeError"):
        kafka.assert_produced("documents", value=lambda data: json.loads(data)["id"] == 2, within=0.01)


def test_nothing_produced_is_what_is_there_now_and_what_comes_during_a_time(kafka):
    kafka.create_topics({"quiet": 1})
    kafka.assert_not_produced("quiet")
    kafka.assert_not_produced("quiet", during=0.01)
    kafka.produce("quiet", "x", key="1")
    kafka.assert_not_produced("quiet", key="2")
    with pytest.raises(AssertionError, match=r"1 record in 'quiet' with key=b'1':\n  quiet-0@0  key=b'1'  value=b'x'"):
        kafka.assert_not_produced("quiet", key="1")
    with pytest.raises(UnknownTopicError):
        kafka.assert_not_produced("quite")


def test_a_record_that_comes_during_the_time_is_noticed(kafka):
    kafka.create_topics({"watched": 1})
    errors = []

    def watch():
        with pytest.raises(AssertionError, match="watched-0@0") as raised:
            kafka.assert_not_produced("watched", during=60)
        errors.append(raised.value)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    kafka.produce("watched", "x")
    watching.join(60)
    assert len(errors) == 1


def test_long_values_are_shortened_and_none_can_reach_a_terminal_raw():
    shown = described(record(value=b"\x1b" + bytes(1000), headers=[("\x1b[31m", b"\x07")]))
    assert "(1,001 bytes)" in shown
    assert len(shown) < 1200
    assert shown.isprintable()


def test_the_order_of_nearness():
    search = Search("t", Expectation({"key": "k", "value": "value"}), None)
    search.take(
        [
            record(b"x", b"zzz", offset=1),
            record(b"k", b"other", offset=2),
            record(b"x", b"value", offset=3),
            record(b"k", b"valeu", offset=4),
        ]
    )
    lines = search.failure(1.0).split("\n")[2:]
    assert [line.split("@")[1][0] for line in lines] == ["4", "2", "3", "1"]
