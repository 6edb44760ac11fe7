"""Text and JSON forms of values that the encoding and the decoding of rows share."""

import base64
import json
from datetime import datetime, time
from decimal import Decimal
from typing import Any, NoReturn, cast


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401 - JSON values
    """Return the JSON value, with exact numbers. Raises ValueError for invalid JSON, which includes NaN and Infinity,
    and for JSON nested more deeply than Python's parser can read.
    """
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def dump_json(value: Any) -> str:  # noqa: ANN401 - JSON values
    """Return a result of `parse_json` as JSON text, with the same numbers."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return "{" + ",".join(f"{quoted(name)}:{dump_json(one)}" for name, one in members.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump_json, cast("list[Any]", value))) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=_native_text)


def _native_text(value: Any) -> str:  # noqa: ANN401 - values of Avro types that JSON does not have
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return time_text(value) if isinstance(value, datetime | time) else str(value)


def quoted(text: str) -> str:
    """Return the text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def decimal_text(value: Decimal) -> str:
    """Return all digits, without an exponent."""
    return format(value, "f") if value.is_finite() else str(value)


def time_text(value: datetime | time) -> str:
    """Return ISO 8601 with microseconds; an instant is in UTC and ends in Z."""
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
