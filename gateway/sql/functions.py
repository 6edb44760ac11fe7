"""The SQL functions on bytes for statements; in PostgreSQL the store creates functions of the same names."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

SqlValue: TypeAlias = int | float | str | bytes | None


def as_text(value: SqlValue) -> SqlValue:
    """Bytes as text; NULL if they are not UTF-8."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def as_json(value: SqlValue) -> SqlValue:
    """Bytes as text if it is valid JSON, for `->>` and json_each; else NULL."""
    text = as_text(value)
    if not isinstance(text, str):
        return None
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return None
    return text


def as_time(timestamp_ms: SqlValue) -> SqlValue:
    """A timestamp as `2013-01-01 12:00:00.000`, in UTC; NULL if it is outside the calendar."""
    if not isinstance(timestamp_ms, int):
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return None


def _refuse(constant: str) -> object:
    raise ValueError(constant)  # Python reads NaN and Infinity, which are not JSON


FUNCTIONS: Final[Mapping[str, Callable[[SqlValue], SqlValue]]] = {
    "as_text": as_text,
    "as_json": as_json,
    "as_time": as_time,
}
"""The functions by their names in statements; each takes one argument."""
