"""The functions for bytes that statements may use; in PostgreSQL those of the same names are made by the store."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

SqlValue: TypeAlias = int | float | str | bytes | None


def as_text(value: SqlValue) -> SqlValue:
    """Bytes as text; NULL where they are not UTF-8."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def as_json(value: SqlValue) -> SqlValue:
    """The text of bytes where that is JSON, for `->>` and json_each; else NULL."""
    text = as_text(value)
    if not isinstance(text, str):
        return None
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return None
    return text


def as_time(timestamp_ms: SqlValue) -> SqlValue:
    """A timestamp as `2013-01-01 12:00:00.000`, in UTC; NULL for what no calendar has."""
    if not isinstance(timestamp_ms, int):
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return None


def _refuse(constant: str) -> object:
    raise ValueError(constant)  # Python reads NaN and Infinity, which are no JSON


FUNCTIONS: Final[Mapping[str, Callable[[SqlValue], SqlValue]]] = {
    "as_text": as_text,
    "as_json": as_json,
    "as_time": as_time,
}
"""By the names that statements have for them; each takes one argument."""
