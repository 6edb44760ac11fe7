"""Record headers as JSON, for SQL: `[{"key": "trace", "value": "17"}]`, in the order of the record."""

import base64
import json
from collections.abc import Sequence


def headers_as_json(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    """Return the JSON in ASCII; None without headers. A value that is not UTF-8 is in base64, named `base64`."""
    return json.dumps([{"key": key, **_value(value)} for key, value in headers]) if headers else None


def _value(value: bytes | None) -> dict[str, str | None]:
    try:
        return {"value": None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value or b"").decode()}
