"""Sets of characters compared with Python's own sets."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.regex.charset import END, CharSet, char_range, one_char, union

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda at: (at[0], at[0] + at[1])), max_size=6)
ALL = CharSet((0, END))


def members(chars, end=60):
    return {code for code in range(end) if chr(code) in chars}


@given(RANGES)
def test_a_union_has_what_is_in_any(ranges):
    chars = union(char_range(first, last) for first, last in ranges)
    assert members(chars) == {code for first, last in ranges for code in range(first, last + 1)}
    assert all(low < high for low, high in zip(chars.bounds, chars.bounds[1:], strict=False))


@given(RANGES)
def test_the_others_are_all_others(ranges):
    chars = union(char_range(first, last) for first, last in ranges)
    assert members(~chars) == set(range(60)) - members(chars)
    assert chr(END - 1) in ~chars
    assert ~~chars == chars
    assert union([chars, ~chars]) == ALL


def test_the_ends():
    assert CharSet() == ~ALL
    assert ~CharSet() == ALL
    assert "\x00" in ALL
    assert chr(END - 1) in ALL


def test_cases():
    assert one_char("k").folded() == union(map(one_char, "kK\u212a"))
    assert one_char("Σ").folded() == union(map(one_char, "Σσς"))
    assert one_char("-").folded() == one_char("-")
    assert ALL.folded() == ALL


@given(RANGES)
def test_folding_twice_adds_nothing(ranges):
    chars = union(char_range(first + 60, last + 60) for first, last in ranges)
    assert chars.folded().folded() == chars.folded()
