"""Hides passwords in this process's command line, which every user of the machine can read (`ps`)."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from odradek.storage_backends.urls import secret_spans

_SECRET_NAMES = ("password", "passwd", "secret", "passphrase", "jaas", "token")


def hide_secrets(arguments: Sequence[str] = sys.argv) -> None:
    """Overwrite the secrets of this process's arguments, in the memory that the kernel shows, with asterisks.

    Until then, from the start of the process on, they can be read; a password in an environment variable or in
    PostgreSQL's password file cannot. Without effect where the kernel does not tell where the arguments are. Never
    raises.
    """
    if any(True for each in arguments for _ in _spans(each)):
        try:
            _overwrite()
        except (OSError, ValueError, IndexError):
            return


def masked(argument: str) -> bytes:
    """Return an argument, as the kernel has it, with an asterisk for each byte of a secret."""
    parts: list[bytes] = []
    at = 0
    for start, end in _spans(argument):
        parts += _bytes(argument[at:start]), b"*" * len(_bytes(argument[start:end]))
        at = end
    return b"".join([*parts, _bytes(argument[at:])])


def _spans(argument: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets: the value of `name=value` with a secret's name, or the passwords of URLs."""
    name, equals, value = argument.partition("=")
    if equals and value and "://" not in name and any(each in name.lower() for each in _SECRET_NAMES):
        yield len(name) + 1, len(argument)
    elif "//" in argument or "jdbc:" in argument:
        yield from secret_spans(argument)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _overwrite() -> None:
    import ctypes

    # proc(5): fields 48 and 49 are where the arguments begin and end; field 2 may contain spaces
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    shown = Path("/proc/self/cmdline").read_bytes()
    if not begin or len(shown) != end - begin or ctypes.string_at(begin, len(shown)) != shown:
        return
    hidden = b"\0".join(masked(each.decode(errors="surrogateescape")) for each in shown.split(b"\0"))
    ctypes.memmove(begin, hidden, len(hidden))
