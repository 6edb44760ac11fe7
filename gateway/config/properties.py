"""Parses Java properties files (Kafka's server.properties): `key=value`, continuation lines, escapes, comments."""

import re
from collections.abc import Iterator
from io import StringIO
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (key, value, line number) of each entry, in order; callers let a later entry of the same key win."""
    for line, number in _logical_lines(text):
        matched = _KEY.fullmatch(line)
        assert matched is not None, "every line matches"
        yield _unescape(matched[1]), _unescape(matched[2]), number


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Join continued lines; skip comments and blank lines. A comment is never continued.

    As for Java, the line after one that is only a backslash is a line of its own, and may be a comment.
    """
    joined, started, is_continued = "", 0, False
    for number, raw in enumerate(StringIO(text, newline=None), start=1):  # lines end with \n, \r\n or \r
        line = raw.removesuffix("\n").lstrip(" \t\f")
        if not joined:
            is_continued = False
            if not line or line[0] in "#!":
                continue
            started = number
        backslashes = len(line) - len(line.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        if is_continued:
            joined += line[:-1]
            continue
        yield joined + line, started
        joined = ""
    if is_continued:
        yield joined, started


def _unescape(text: str) -> str:
    def replace(matched: re.Match[str]) -> str:
        escape = matched[1]
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPES.get(escape, escape)

    replaced = _ESCAPE.sub(replace, text)
    # Java writes characters beyond 16 bits as two escapes
    return replaced.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
