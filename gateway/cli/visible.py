"""Escapes control characters, so that a text that a client or another broker has chosen cannot control a terminal.

Escaped are the control characters of ASCII and of Latin-1, the line and paragraph separators, the characters that
change the direction of text, and surrogates: `\\n`, `\\x1b`, `\\u202e`. Output for programs (JSON) stays exact: there
they are escapes of JSON, which mean the same text.
"""

import re
from typing import Final

_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPED_IN_JSON: Final = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPED_IN_LINES: Final = re.compile(_ESCAPED.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f"))
_NAMES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    """Return the text in one line, with escapes for control characters."""
    return text if text.isascii() and text.isprintable() else _ESCAPED.sub(_escape, text)


def visible_lines(text: str) -> str:
    """As `visible`, but tabs and line ends stay."""
    return _ESCAPED_IN_LINES.sub(_escape, text)


def visible_json(document: str) -> str:
    """Return a JSON document that means the same, without control characters that JSON allows in strings."""
    return document if document.isascii() else _ESCAPED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _NAMES.get(found[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
