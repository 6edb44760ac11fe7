"""Hides the passwords in URLs of databases, for everything that people or other programs can read."""

import re
from collections.abc import Iterator
from typing import Final

HIDDEN: Final = "***"
_SECRETS: Final = re.compile(
    # //user:PASSWORD@host; it may contain @ and /, which a URL should have encoded
    r"(?<![/\w])//[^:/?#@\s]*:(?P<of_user>[^?#;\s]*)@"
    # jdbc:oracle:thin:user/PASSWORD@host
    r"|\bjdbc:oracle:\w+:[^/@\s]*/(?P<of_oracle>[^@\s]*)@"
    # ?password=PASSWORD, &sslpassword=…, ;pwd=…
    r"|[?&;][\w.-]*(?:password|passwd|pwd|passphrase|secret|token)[\w.-]*=(?P<of_option>[^&;#\s]*)",
    re.IGNORECASE,
)


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the passwords of the URLs in `text` begin and end, in order."""
    for found in _SECRETS.finditer(text):
        if found.lastgroup is not None and found[found.lastgroup]:
            yield found.span(found.lastgroup)


def masked_url(text: str) -> str:
    """Return the URL, or a text with URLs, with *** for each password."""
    parts: list[str] = []
    at = 0
    for start, end in secret_spans(text):
        parts += text[at:start], HIDDEN
        at = end
    return "".join([*parts, text[at:]])
