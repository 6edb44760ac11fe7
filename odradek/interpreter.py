"""Refuses interpreters that Odradek does not run on, with what to do, before anything else is imported."""

import sys
from typing import Final

FREE_THREADED: Final = "free-threading build"
"""What `sys.version` contains for a Python built with --disable-gil, on every platform, from 3.13 on."""
REFUSAL: Final = (
    "Odradek does not run on a free-threaded Python (built with --disable-gil): not all libraries that it needs exist "
    "for one. Use the ordinary build of the same version, for example 3.13 and not 3.13t."
)


class UnsupportedInterpreterError(RuntimeError):
    """This interpreter cannot run a broker; the message says which one can."""


def check_interpreter(version: str = sys.version) -> None:
    """Raise UnsupportedInterpreterError for a free-threaded build, also while its lock is on (PYTHON_GIL=1)."""
    if FREE_THREADED in version:
        raise UnsupportedInterpreterError(REFUSAL)
