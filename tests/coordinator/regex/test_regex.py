"""Regular expressions compared with the recorded results of RE2/J 1.8, Kafka's own engine (`data/`)."""

import json
import re
import weakref
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.regex import InvalidRegex, Matcher, TooManySteps, matcher

DATA = Path(__file__).parent / "data"
TOPICS = json.loads((DATA / "re2j_1_8_answers.json").read_text())
UNICODE = json.loads((DATA / "re2j_1_8_unicode_answers.json").read_text())


def check(pattern, known):
    expected = known["answers"][pattern]
    if expected is None:
        with pytest.raises(InvalidRegex):
            Matcher(pattern)
    else:
        machine = Matcher(pattern)
        assert [name for name in known["names"] if machine.matches(name)] == expected


@pytest.mark.parametrize("pattern", sorted(TOPICS["answers"]))
def test_it_matches_what_re2j_matches(pattern):
    check(pattern, TOPICS)


@pytest.mark.parametrize("pattern", sorted(UNICODE["answers"]))
def test_it_matches_what_re2j_matches_in_any_text(pattern):
    check(pattern, UNICODE)


@pytest.mark.parametrize("pattern", sorted(UNICODE["classes"]))
def test_a_class_has_the_characters_that_it_has_in_re2j(pattern):
    machine = Matcher(pattern)
    assert [char for char in UNICODE["probes"] if machine.matches(char)] == list(UNICODE["classes"][pattern])


@pytest.mark.parametrize(
    "pattern",
    ["(a{1000}){1000}", "a" * 5000, "(" * 101 + ")" * 101, "(((){1000}){1000}){1000}", "(((a{0}){1000}){1000}){1000}"],
)
def test_what_is_too_large_is_refused(pattern):
    with pytest.raises(InvalidRegex):
        Matcher(pattern)


def test_no_expression_takes_more_than_linear_time():
    """A backtracking engine takes exponential time for each of these."""
    for pattern in ("(a+)+b", "(a|aa)+b", "(a*)*b", "(a?){50}a{50}"):
        machine = Matcher(pattern)
        assert machine.matches("a" * 50) == (pattern == "(a?){50}a{50}")
        assert not machine.matches("a" * 200)


def test_states_are_dropped_when_there_are_many(monkeypatch):
    monkeypatch.setattr(matcher, "MAX_REMEMBERED", 1000)
    machine = Matcher("[ab]*a[ab]{11}")
    names = [f"{number:014b}".replace("0", "a").replace("1", "b") for number in range(4096)]
    for name in names:
        assert machine.matches(name) == (name[-12] == "a")
        assert sum(1 + len(each.instructions) + len(each.steps) for each in machine.states) < 2500


def test_many_different_characters_are_dropped_too(monkeypatch):
    monkeypatch.setattr(matcher, "MAX_REMEMBERED", 1000)
    machine = Matcher(".*")
    assert machine.matches("".join(map(chr, range(0x4E00, 0x9FFF))))
    assert sum(len(each.steps) for each in machine.states) <= 1001


def test_a_machine_goes_with_its_last_user():
    machine = Matcher("(a|b)*c?")
    assert machine.matches("abababc")
    states = [weakref.ref(machine.states[-1].instructions), weakref.ref(machine)]
    del machine
    assert [state() for state in states] == [None, None]


@given(st.text(max_size=30))
def test_any_text_is_taken_or_refused(text):
    with suppress(InvalidRegex):
        assert Matcher(text).matches("abc") in (True, False)


ATOMS = [
    "a",
    "b",
    "é",
    "日",
    "😀",
    "-",
    "/",
    " ",
    ".",
    "[^a]",
    "[a-z]",
    "[à-ÿ]",
    r"\d",
    r"\w",
    r"\S",
    r"\.",
    r"[\w.-]",
    "(?s:.)",
]
ATOMS += ["^", r"\b", "(?i:B)", "(?m:^)", "(?m:$)", "[^-\n]", r"\x41", "[.]", r"\n"]
WHOLE = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}", "{0,3}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=10,
)
"""Expressions with the same meaning in Python under re.ASCII."""


@given(WHOLE, st.lists(st.text(alphabet="abAB1é日😀-/. \n", max_size=6), max_size=20))
def test_it_matches_what_python_matches(pattern, texts):
    machine, pythons = Matcher(pattern), re.compile(pattern, re.ASCII)
    assert [machine.matches(text) for text in texts] == [bool(pythons.fullmatch(text)) for text in texts]


def test_the_work_of_a_matcher_is_bounded_and_what_it_remembers_is_free():
    machine = Matcher("(a|b)*c", max_steps=100)
    assert [machine.matches("ab" * length + "c") for length in range(1000)] == [True] * 1000
    with pytest.raises(TooManySteps):
        Matcher(".*a.{200}", max_steps=1000).matches("ab" * 100)
