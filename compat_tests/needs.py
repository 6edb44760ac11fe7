"""States what the functions of the tests need, for the tiers (`tests/tiers.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

Target = TypeVar("Target")
FACILITIES: Final = {
    "spark": "starts a Spark session",
    "java": "needs a JVM or Kafka's jars",
    "postgres": "needs a real PostgreSQL",
    "processes": "starts processes",
    "containers": "needs a container engine where there is one",
    "long": "takes long: has a time limit above the default, or says so",
}
"""What a test may need, and what the mark of this name says."""
_NEEDS: Final = "__odradek_needs__"
_ONLY: Final = "__odradek_needs_only__"


def needs(*facilities: str, only: bool = False) -> Callable[[Target], Target]:
    """States that a function or class needs these facilities, and with it every test that reaches it.

    With `only`, what it refers to needs nothing more: it is not looked into.
    """
    assert set(facilities) <= FACILITIES.keys(), facilities

    def stated(target: Target) -> Target:
        setattr(target, _NEEDS, frozenset(facilities))
        setattr(target, _ONLY, only)
        return target

    return stated


def needed_by(target: object) -> frozenset[str]:
    """What is stated about this function or class."""
    return getattr(target, _NEEDS, frozenset())


def is_whole(target: object) -> bool:
    """True if what is stated about a function or class is all that it needs."""
    return getattr(target, _ONLY, False)
