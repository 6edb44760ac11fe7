"""How a record becomes bytes on stdout, and a line of JSON becomes a record again."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from gateway.cli.client import Record

Formatter = Callable[[Record], bytes]

FULL = "{topic}-{partition}@{offset} {time} {key} {value} {headers}"
FORMAT_HELP = (
    "`value`, `key-value` (tab between), `full`, `json` (one object a line), or a template of "
    "{topic} {partition} {offset} {timestamp} {time} {key} {value} {headers} with \\t \\n \\0; "
    "a line end is added unless the template brings one."
)
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


def formatter(name: str) -> Formatter:
    """The formatter of that name, or of a template; raises ValueError for an unknown `{field}`."""
    named: dict[str, Formatter] = {"value": _value_line, "json": _json_line}
    templates = {"key-value": "{key}\t{value}", "full": FULL}
    return named.get(name) or _template(templates.get(name, name))


def _value_line(record: Record) -> bytes:
    return _bytes(record.value) + b"\n"


def _bytes(value: bytes | None) -> bytes:
    return b"null" if value is None else value


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + _bytes(value) for name, value in record.headers)


def _time(record: Record) -> bytes:
    moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


_FIELDS: Mapping[str, Formatter] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: b"%d" % record.timestamp,
    "time": _time,
    "key": lambda record: _bytes(record.key),
    "value": lambda record: _bytes(record.value),
    "headers": _headers,
}


def _template(template: str) -> Formatter:
    text = re.sub(r"\\[tnr0\\]", lambda match: _ESCAPES[match[0]], template)
    if not text.endswith(("\n", "\0")):
        text += "\n"
    parts = [_part(part) for part in re.split(r"(\{\w+\})", text) if part]
    return lambda record: b"".join(part(record) for part in parts)


def _part(part: str) -> Formatter:
    if not re.fullmatch(r"\{\w+\}", part):
        literal = part.encode()
        return lambda _: literal
    if part[1:-1] not in _FIELDS:
        raise ValueError(f"unknown field {part}; there are {', '.join(_FIELDS)}")
    return _FIELDS[part[1:-1]]


def _json_line(record: Record) -> bytes:
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_as_json("key", record.key),
        **_as_json("value", record.value),
        "headers": [{"name": name, **_as_json("value", value)} for name, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _as_json(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send; a value of None is a tombstone, `timestamp_ms` of None means now."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp_ms: int | None = None


def parse_json_record(line: bytes) -> Outgoing:
    """Read what the `json` format writes; topic, partition and offset are ignored. Raises ValueError."""
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
