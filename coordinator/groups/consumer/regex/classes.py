"""Classes of characters, as far as topic names have any of them."""

import string
import unicodedata
from collections.abc import Mapping
from typing import Final

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""Every character that can stand in a topic's name."""
WORD: Final = frozenset(string.ascii_letters + string.digits + "_")

_DIGITS: Final = frozenset(string.digits)
_NONE: Final = frozenset[str]()

PERL: Final[Mapping[str, frozenset[str]]] = {
    "d": _DIGITS,
    "D": ALPHABET - _DIGITS,
    "s": _NONE,
    "S": ALPHABET,
    "w": WORD,
    "W": ALPHABET - WORD,
}
"""The letter behind a backslash to its class."""

POSIX: Final[Mapping[str, frozenset[str]]] = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": ALPHABET,
    "blank": _NONE,
    "cntrl": _NONE,
    "digit": _DIGITS,
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": _NONE,
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
"""What stands in `[:name:]`."""

_CATEGORIES: Final = frozenset(
    {
        "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No",
        "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
    }
)  # fmt: skip
_OTHER_SCRIPTS: Final = frozenset(
    {
        "Arabic", "Armenian", "Bengali", "Bopomofo", "Braille", "Cherokee", "Coptic", "Cyrillic", "Devanagari",
        "Ethiopic", "Georgian", "Gothic", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana",
        "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Malayalam", "Mongolian", "Myanmar", "Ogham", "Oriya",
        "Runic", "Sinhala", "Syriac", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan", "Yi",
    }
)  # fmt: skip
"""Scripts that no topic name has a character of; RE2 knows more, rarer ones."""


def unicode_class(name: str) -> frozenset[str] | None:
    """The members of a category or script; None for one that is not known."""
    if name in _CATEGORIES:
        return frozenset(char for char in ALPHABET if unicodedata.category(char).startswith(name))
    if name == "Any":
        return ALPHABET
    if name in ("Latin", "Common"):
        return frozenset(char for char in ALPHABET if char.isalpha() == (name == "Latin"))
    return _NONE if name in _OTHER_SCRIPTS else None


def fold(members: frozenset[str]) -> frozenset[str]:
    """The same in upper and lower case."""
    return frozenset(each for char in members for each in (char, char.lower(), char.upper()))
