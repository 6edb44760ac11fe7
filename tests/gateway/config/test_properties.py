"""Properties files are read as Java reads them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.gateway.config.properties import parse_properties

DATA = Path(__file__).parent / "data"


def test_a_tricky_file_is_read_as_java_read_it():
    expected = json.loads((DATA / "tricky_as_java_reads_it.json").read_text())
    read = {key: value for key, value, _ in parse_properties((DATA / "tricky.properties").read_text())}
    assert read == expected


def test_entries_know_the_line_they_begin_on():
    lines = {key: line for key, _, line in parse_properties("# c\n\na=1\nb=x\\\n  y\r\nc=3\rd=4")}
    assert lines == {"a": 3, "b": 4, "c": 6, "d": 7}


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("\\\na=1", {"a": "1"}),
        ("\\\n\\\nb=2\n", {"b": "2"}),
        ("\\\n#c=3", {}),
        ("\\\n\nd=4", {"d": "4"}),
        ("k=\\\n\\\nv", {"k": "v"}),
        ("x=1\\\n\n y=2", {"x": "1", "y": "2"}),
        ("\\\n", {"": ""}),
    ],
)
def test_a_line_that_is_only_a_backslash_is_read_as_by_java(text: str, entries: dict[str, str]):
    """The expected entries are those of `java.util.Properties`."""
    assert {key: value for key, value, _ in parse_properties(text)} == entries


def written(text: str, *, key: bool) -> str:
    """`text` as Java's Properties.store writes it."""
    out = ""
    for index, letter in enumerate(text):
        if letter == " " and (key or index == 0):
            out += "\\ "
        elif letter in "\t\n\r\f":
            out += {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[letter]
        elif letter in "\\=:#!":
            out += "\\" + letter
        elif not " " <= letter <= "~":
            units = letter.encode("utf-16-be")
            out += "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        else:
            out += letter
    return out


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(texts, texts, max_size=6))
def test_what_java_would_store_is_read_back(properties: dict[str, str]):
    file = "".join(f"{written(key, key=True)}={written(value, key=False)}\n" for key, value in properties.items())
    assert {key: value for key, value, _ in parse_properties(file)} == properties


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_is_read_without_an_error(text: str):
    for key, value, line in parse_properties(text):
        (key + value).encode()
        assert line >= 1
