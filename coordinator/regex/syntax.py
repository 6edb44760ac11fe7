"""The parser of regular expressions, by RE2's rules (https://github.com/google/re2/wiki/Syntax)."""

import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeAlias

from odradek.coordinator.regex.charset import END, CharSet, char_range, one_char, union
from odradek.coordinator.regex.classes import ANY, NOT_NEWLINE, PERL, POSIX, unicode_class

MAX_REPEAT: Final = 1000
"""The largest count in `{…}`, as in RE2."""
MAX_DEPTH: Final = 100
"""The maximum nesting of groups. RE2 allows 1,000; patterns in use have fewer than ten."""
MAX_LENGTH: Final = 4096
"""The maximum length of an expression in characters."""

_OPERATORS: Final[Mapping[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class InvalidRegex(ValueError):  # noqa: N818 - named by condition
    """The text is not a valid regular expression; the message has the reason."""


class Assertion(Enum):
    """A condition on a position between two characters."""

    TEXT_START = auto()
    TEXT_END = auto()
    LINE_START = auto()
    LINE_END = auto()
    WORD = auto()
    NOT_WORD = auto()


_ASSERTIONS: Final = {
    "A": Assertion.TEXT_START,
    "z": Assertion.TEXT_END,
    "b": Assertion.WORD,
    "B": Assertion.NOT_WORD,
}


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of the set; an empty set matches nothing."""

    members: CharSet


@dataclass(frozen=True, slots=True)
class Sequence:
    """The parts in order; without parts it matches the empty string."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the options."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `least` to `most` repetitions; unlimited if `most` is None."""

    node: "Node"
    least: int
    most: int | None


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Assertion


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags in force: `i`, `m` and `s`. The fourth, `U`, does not affect matches of a whole text."""

    fold_case: bool = False
    multi_line: bool = False
    dot_all: bool = False

    def all_cases(self, members: CharSet) -> CharSet:
        """Returns the set with all case variants added if case is ignored."""
        return members.folded() if self.fold_case else members


_FLAG_NAMES: Final = {"i": "fold_case", "m": "multi_line", "s": "dot_all"}


class Parser:
    """Parses one expression. Each method reads one construct at `_at` and moves `_at` past it."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise InvalidRegex(f"it is longer than {MAX_LENGTH} characters")
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = Flags()
        self._names: set[str] = set()

    def parse(self) -> Node:
        """Parse the whole expression. Raises InvalidRegex."""
        node = self._choice()
        if self._at < len(self._text):
            raise InvalidRegex("unexpected )")
        return node

    # Structure

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        repeated = False
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            bounds = self._repetition()
            if bounds is None:
                node = self._atom()
                repeated = False
                if node is not None:
                    parts.append(node)
            elif not parts or repeated:
                raise InvalidRegex("invalid nested repetition operator" if parts else "missing argument to repetition")
            else:
                parts[-1] = Repeat(parts[-1], *bounds)
                repeated = True
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repetition(self) -> tuple[int, int | None] | None:
        """Read a repetition operator, if there is one. Lazy ones are equivalent when the whole text must match."""
        bounds = _OPERATORS.get(self._peek())
        if bounds is None:
            bounds = self._counts()
        else:
            self._at += 1
        if bounds is not None:
            self._take("?")
        return bounds

    def _counts(self) -> tuple[int, int | None] | None:
        """Read `{n}`, `{n,}` or `{n,m}`; anything else that begins with a brace is text."""
        end = self._text.find("}", self._at)
        if not self._text.startswith("{", self._at) or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_count(low) or (high and not _is_count(high)):
            return None
        self._at = end + 1
        least = int(low)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise InvalidRegex("invalid repeat count")
        return least, most

    def _atom(self) -> Node | None:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return Chars(self._class())
        if char == ".":
            return Chars(ANY if self._flags.dot_all else NOT_NEWLINE)
        if char == "^":
            return Assertion.LINE_START if self._flags.multi_line else Assertion.TEXT_START
        if char == "$":
            return Assertion.LINE_END if self._flags.multi_line else Assertion.TEXT_END
        return self._escape() if char == "\\" else self._literal(char)

    def _literal(self, char: str) -> Node:
        return Chars(self._flags.all_cases(one_char(char)))

    # Groups

    def _group(self) -> Node | None:
        before = self._flags
        if self._take("?") and not self._group_kind():
            return None  # flags for what follows
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidRegex("groups nest too deeply")
        node = self._choice()
        if not self._take(")"):
            raise InvalidRegex("missing closing )")
        self._depth -= 1
        self._flags = before
        return node if not isinstance(node, Sequence) else Sequence(node.parts)

    def _group_kind(self) -> bool:
        """Read a name or flags after `(?`. Returns False for flags that apply to the rest of the enclosing group."""
        for opening in ("P<", "<"):
            if self._text.startswith(opening, self._at) and self._text[self._at + 1 : self._at + 2] not in "=!":
                self._at += len(opening)
                self._name()
                return True
        return self._read_flags()

    def _name(self) -> None:
        end = self._text.find(">", self._at)
        name = self._text[self._at : max(end, self._at)]
        if not name or not all(char in string.ascii_letters + string.digits + "_" for char in name):
            raise InvalidRegex("invalid named capture")
        if name in self._names:
            raise InvalidRegex("duplicate capture group name")
        self._names.add(name)
        self._at = end + 1

    def _read_flags(self) -> bool:
        flags, sign, seen = self._flags, True, False
        while True:
            char = self._next("missing closing )")
            if char == "-" and sign:
                sign, seen = False, False
            elif char in "imsU":
                seen = True
                flags = replace(flags, **{_FLAG_NAMES[char]: sign}) if char != "U" else flags
            elif char in ":)" and (sign or seen):
                self._flags = flags
                return char == ":"
            else:
                raise InvalidRegex("invalid or unsupported Perl syntax")

    # Escapes

    def _escape(self) -> Node:
        char = self._next("trailing backslash at end of expression")
        if char in _ASSERTIONS:
            return _ASSERTIONS[char]
        if char == "Q":
            return self._quoted()
        named = self._named_class(char)
        return self._literal(chr(self._code(char))) if named is None else Chars(named)

    def _quoted(self) -> Node:
        end = self._text.find(r"\E", self._at)
        quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        return Sequence(tuple(self._literal(char) for char in quoted))

    def _named_class(self, char: str) -> CharSet | None:
        """Returns the set for `\\d` and the like, `\\pN`, `\\p{Greek}`; None for any other escape."""
        if char.lower() in PERL:
            members = self._flags.all_cases(PERL[char.lower()])
            return ~members if char.isupper() else members
        return self._unicode_class(negated=char == "P") if char in "pP" else None

    def _unicode_class(self, *, negated: bool) -> CharSet:
        name = self._next("invalid character class range")
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise InvalidRegex("invalid character class range")
            name, self._at = self._text[self._at : end], end + 1
        named = unicode_class(name.removeprefix("^"))
        if named is None:
            raise InvalidRegex("invalid character class range")
        members = self._flags.all_cases(named)
        return ~members if negated != name.startswith("^") else members

    def _code(self, char: str) -> int:
        """Returns the code point of the character that an escape represents."""
        if char in _ESCAPES:
            return ord(_ESCAPES[char])
        if char == "x":
            return self._hexadecimal()
        if char == "0" or (char in "1234567" and self._peek() in tuple("01234567")):
            return self._octal(char)
        if not (char.isascii() and char.isalnum()):
            return ord(char)
        raise InvalidRegex("invalid escape sequence")

    def _octal(self, first: str) -> int:
        digits = first
        while len(digits) < 3 and self._peek() in tuple("01234567"):
            digits += self._next()
        return int(digits, 8)

    def _hexadecimal(self) -> int:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits, self._at = self._text[self._at : max(end, self._at)], end + 1
        else:
            digits, self._at = self._text[self._at : self._at + 2], self._at + 2
            end = self._at if len(digits) == 2 else -1
        if end < 0 or not digits or any(char not in string.hexdigits for char in digits):
            raise InvalidRegex("invalid escape sequence")
        code = int(digits, 16)
        if code >= END:
            raise InvalidRegex("invalid escape sequence")
        return code

    # Classes

    def _class(self) -> CharSet:
        negated = self._take("^")
        items: list[CharSet] = []
        while not items or not self._take("]"):
            if self._at >= len(self._text):
                raise InvalidRegex("missing closing ]")
            items.append(self._class_item())
        members = union(items)
        return ~members if negated else members

    def _class_item(self) -> CharSet:
        named = self._posix()
        if named is not None:
            return named
        if self._text.startswith("\\", self._at) and self._text[self._at + 1 : self._at + 2] in tuple("dDsSwWpP"):
            self._at += 1
            found = self._named_class(self._next())
            assert found is not None
            return found
        low = high = self._class_char()
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            high = self._class_char()
        if high < low:
            raise InvalidRegex("invalid character class range")
        return self._flags.all_cases(char_range(low, high))

    def _posix(self) -> CharSet | None:
        end = self._text.find(":]", self._at + 2)
        if not self._text.startswith("[:", self._at) or end < 0:
            return None
        name = self._text[self._at + 2 : end]
        named = POSIX.get(name.removeprefix("^"))
        if named is None:
            raise InvalidRegex("invalid character class range")
        self._at = end + 2
        members = self._flags.all_cases(named)
        return ~members if name.startswith("^") else members

    def _class_char(self) -> int:
        char = self._next("missing closing ]")
        return self._code(self._next("missing closing ]")) if char == "\\" else ord(char)

    # Characters

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self, missing: str = "unexpected end") -> str:
        if self._at >= len(self._text):
            raise InvalidRegex(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False


def _is_count(text: str) -> bool:
    """Returns True if the text is a count, without a leading zero."""
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")
