"""The position of a load: the values of the increasing columns in the last loaded row, and ranges of positions."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from odradek.pipeline.errors import PipelineError

Position = tuple[Any, ...]
"""A driver's values, one per increasing column, none of them NULL."""


@dataclass(frozen=True, slots=True)
class Range:
    """The rows after `after` (None: from the first) up to and including `until` (None: to the last)."""

    after: Position | None
    until: Position | None


_TEXTS: Final[Mapping[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    bool: ("bool", bool, bool),
    int: ("int", int, int),
    float: ("float", float.hex, float.fromhex),
    str: ("str", str, str),
    Decimal: ("decimal", str, Decimal),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    UUID: ("uuid", str, UUID),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode(), base64.b64decode),
}
_BY_NAME: Final = {name: read for name, _, read in _TEXTS.values()}


def to_json(position: Position) -> list[list[Any]]:
    """Return the position in JSON form, each value with its type. Raises PipelineError for a type without an order."""
    for value in position:
        if type(value) not in _TEXTS:
            raise PipelineError(f"a load cannot go by a column whose values are {type(value).__name__}")
    return [[_TEXTS[type(value)][0], _TEXTS[type(value)][1](value)] for value in position]


def from_json(stored: Sequence[Sequence[Any]]) -> Position:
    """The inverse of `to_json`."""
    return tuple(_BY_NAME[name](value) for name, value in stored)
