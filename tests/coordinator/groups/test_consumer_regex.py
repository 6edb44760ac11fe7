"""Regular expressions against what RE2/J 1.8, Kafka's own engine, answered to the same ones (`data/`)."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.consumer.regex import InvalidRegex, Matcher

KNOWN = json.loads((Path(__file__).parent / "data" / "re2j_1_8_answers.json").read_text())


@pytest.mark.parametrize("pattern", sorted(KNOWN["answers"]))
def test_it_matches_what_re2j_matches(pattern):
    expected = KNOWN["answers"][pattern]
    if expected is None:
        with pytest.raises(InvalidRegex):
            Matcher(pattern)
    else:
        matcher = Matcher(pattern)
        assert [name for name in KNOWN["names"] if matcher.matches(name)] == expected


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "a" * 5000, "(" * 101 + ")" * 101])
def test_what_is_too_large_is_refused(pattern):
    with pytest.raises(InvalidRegex):
        Matcher(pattern)


def test_no_expression_takes_more_than_linear_time():
    """Each of these keeps a backtracking engine busy for longer than anyone waits."""
    for pattern in ("(a+)+b", "(a|aa)+b", "(a*)*b", "(a?){50}a{50}"):
        matcher = Matcher(pattern)
        assert matcher.matches("a" * 50) == (pattern == "(a?){50}a{50}")
        assert not matcher.matches("a" * 200)


def test_states_are_forgotten_when_there_are_many():
    matcher = Matcher("[ab]*a[ab]{11}")
    names = [f"{number:014b}".replace("0", "a").replace("1", "b") for number in range(4096)]
    assert [matcher.matches(name) for name in names] == [name[-12] == "a" for name in names]


@given(st.text(max_size=30))
def test_any_text_is_taken_or_refused(text):
    with suppress(InvalidRegex):
        assert Matcher(text).matches("abc") in (True, False)
