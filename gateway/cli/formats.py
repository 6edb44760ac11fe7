"""Formats of records: from records to bytes on stdout, and from a line of JSON to a record."""

import base64
import binascii
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from odradek.gateway.cli.clients.interface import Access, Outgoing
from odradek.gateway.cli.visible import visible, visible_json, visible_lines

Formatter = Callable[[Sequence[Any]], list[bytes]]
"""Converts records to bytes; for a template, one field of all records at a time, which takes fewer calls."""

Column = Callable[[Sequence[Any]], Iterable[bytes]]

FULL = "{topic}-{partition}@{offset} {time} {key} {value} {headers}"
FORMAT_HELP = (
    "`value`, `key-value` (tab between), `full`, `json` (one object a line), or a template of "
    "{topic} {partition} {offset} {timestamp} {time} {key} {value} {headers} with \\t \\n \\0; "
    "a line end is added unless the template has one at its end."
)
FIELDS = ("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers")
_TEMPLATES = {"key-value": "{key}\t{value}", "full": FULL}
_NAMES = ("value", *_TEMPLATES, "json")
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


def check_layout(layout: str) -> None:
    """Raise ValueError for a template without a field, and for unknown fields and escapes."""
    template = _TEMPLATES.get(layout, layout)
    if layout in _NAMES:
        return
    named = re.findall(r"\{([\w.:-]+)\}", template)
    if not named:
        raise ValueError(f"{layout!r} is neither {', '.join(_NAMES)} nor a template with a {{field}}")
    if unknown := [name for name in named if name not in FIELDS]:
        raise ValueError(f"unknown field {{{unknown[0]}}}; there are {', '.join(FIELDS)}")
    if unknown := [escape for escape in re.findall(r"\\.?", template, re.DOTALL) if escape not in _ESCAPES]:
        raise ValueError(f"unknown escape {unknown[0]}; there are {' '.join(_ESCAPES)}")


def formatter(layout: str, access: Access, *, on_terminal: bool = False) -> Formatter:
    """The formatter for a name or template that `check_layout` has accepted.

    `on_terminal`: control characters in keys, values and headers are escaped, except tabs and line ends of `value`.
    """
    if layout == "value":
        shown = _visible_lines if on_terminal else bytes
        return lambda records: [
            b"null\n" if value is None else shown(value) + b"\n" for value in map(access.value, records)
        ]
    if layout == "json":
        exact = visible_json if on_terminal else str
        return lambda records: [exact(_json_line(access, record)).encode() for record in records]
    columns = _columns(access)
    if on_terminal:
        columns = {name: _visible_column(column) for name, column in columns.items()}
    return _template(_TEMPLATES.get(layout, layout), columns)


def _visible_column(column: Column) -> Column:
    return lambda records: map(_visible, column(records))


def _visible(text: bytes) -> bytes:
    return visible(text.decode(errors="backslashreplace")).encode()


def _visible_lines(text: bytes) -> bytes:
    return visible_lines(text.decode(errors="backslashreplace")).encode()


def _bytes(value: bytes | None) -> bytes:
    return b"null" if value is None else value


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    return b",".join(name.encode() + b"=" + _bytes(value) for name, value in headers)


def _time(timestamp_ms: int) -> bytes:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # any 64-bit number may be stored as a timestamp
        return b"%d" % timestamp_ms
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _columns(access: Access) -> Mapping[str, Column]:
    return {
        "topic": lambda records: map(str.encode, map(access.topic, records)),
        "partition": lambda records: [b"%d" % number for number in map(access.partition, records)],
        "offset": lambda records: [b"%d" % number for number in map(access.offset, records)],
        "timestamp": lambda records: [b"%d" % number for number in map(access.timestamp, records)],
        "time": lambda records: map(_time, map(access.timestamp, records)),
        "key": lambda records: map(_bytes, map(access.key, records)),
        "value": lambda records: map(_bytes, map(access.value, records)),
        "headers": lambda records: map(_headers, map(access.headers, records)),
    }


def _template(template: str, columns: Mapping[str, Column]) -> Formatter:
    text = re.sub(r"\\[tnr0\\]", lambda match: _ESCAPES[match[0]], template)
    if not text.endswith(("\n", "\0")):
        text += "\n"
    parts = [_part(part, columns) for part in re.split(r"(\{\w+\})", text) if part]
    return lambda records: list(map(b"".join, zip(*(part(records) for part in parts), strict=False)))


def _part(part: str, columns: Mapping[str, Column]) -> Column:
    if re.fullmatch(r"\{\w+\}", part):
        return columns[part[1:-1]]
    literal = os.fsencode(part)
    return lambda _: itertools.repeat(literal)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _json_line(access: Access, record: Any) -> str:  # noqa: ANN401 - a client's record
    document = {
        "topic": access.topic(record),
        "partition": access.partition(record),
        "offset": access.offset(record),
        "timestamp": access.timestamp(record),
        **_as_json("key", access.key(record)),
        **_as_json("value", access.value(record)),
        "headers": [{"name": name, **_as_json("value", value)} for name, value in access.headers(record)],
    }
    return _ENCODER.encode(document) + "\n"


def _as_json(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def parse_json_record(line: bytes) -> Outgoing:
    """Parse a line of the `json` format; topic, partition and offset are ignored. Raises ValueError."""
    parsed: Any = json.loads(line)
    if not isinstance(parsed, dict):
        raise ValueError("a JSON object is wanted")  # noqa: TRY004 - one exception type for bad lines
    document = cast("dict[str, Any]", parsed)
    timestamp = document.get("timestamp")
    if timestamp is not None and not isinstance(timestamp, int):
        raise ValueError("timestamp must be milliseconds since the epoch")
    headers = [(str(each["name"]), _from_json("value", each) or b"") for each in _header_list(document)]
    return Outgoing(_from_json("value", document), _from_json("key", document), headers, timestamp)


def _header_list(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    headers: Any = document.get("headers") or []
    if isinstance(headers, dict):
        return [{"name": name, "value": value} for name, value in cast("dict[str, Any]", headers).items()]
    if not isinstance(headers, list) or not all(
        isinstance(each, dict) and "name" in each for each in cast("list[Any]", headers)
    ):
        raise ValueError('headers must be an object, or a list of {"name": ..., "value": ...}')
    return cast("list[Mapping[str, Any]]", headers)


def _from_json(name: str, document: Mapping[str, Any]) -> bytes | None:
    if (encoded := document.get(f"{name}_base64")) is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"{name}_base64: {error}") from error
    value = document.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
