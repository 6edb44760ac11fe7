"""The named character classes."""

import string
from collections.abc import Mapping
from functools import cache
from itertools import accumulate
from typing import Final

from odradek.coordinator.regex.charset import END, CharSet, one_char, union
from odradek.coordinator.regex.unicode_tables import CATEGORIES, SCRIPTS

WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
"""The word characters, for `\\b`."""

ANY: Final = CharSet((0, END))
NOT_NEWLINE: Final = ~one_char("\n")

_SURROGATES: Final = CharSet((0xD800, 0xE000))


def _chars(members: str) -> CharSet:
    return union(one_char(char) for char in members)


PERL: Final[Mapping[str, CharSet]] = {
    "d": _chars(string.digits),
    "s": _chars("\t\n\f\r "),
    "w": _chars("".join(WORD)),
}
"""By the letter after the backslash; the capital letter stands for the complement."""

POSIX: Final[Mapping[str, CharSet]] = {
    "alnum": _chars(string.ascii_letters + string.digits),
    "alpha": _chars(string.ascii_letters),
    "ascii": CharSet((0, 0x80)),
    "blank": _chars("\t "),
    "cntrl": CharSet((0, 0x20, 0x7F, 0x80)),
    "digit": _chars(string.digits),
    "graph": CharSet((0x21, 0x7F)),
    "lower": _chars(string.ascii_lowercase),
    "print": CharSet((0x20, 0x7F)),
    "punct": _chars(string.punctuation),
    "space": _chars("\t\n\v\f\r "),
    "upper": _chars(string.ascii_uppercase),
    "word": _chars("".join(WORD)),
    "xdigit": _chars(string.hexdigits),
}
"""By the name in `[:name:]`."""


@cache
def unicode_class(name: str) -> CharSet | None:
    """Returns the members of a category or script; None if the name is unknown."""
    if name == "Any":
        return ANY
    if name == "Cs":
        return _SURROGATES
    table = CATEGORIES.get(name) or SCRIPTS.get(name)
    if table is not None:
        return CharSet(tuple(accumulate(int(step, 36) for step in table.split())))
    parts = [unicode_class(each) for each in CATEGORIES if len(name) == 1 and each.startswith(name)]
    return union(part for part in parts if part is not None) if parts else None
