"""Log records as JSON, one object a line, for programs that collect logs.

The `name=value` parts of a message become fields of the object and keep their types. Those at the end of a message, as
nearly all are, are removed from its text: `closing connection peer=%s cause=%s` has the message `closing connection`. A
traceback becomes the field `exception`.
"""

import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from odradek.gateway.cli.visible import visible_json

_CONVERSION: Final = re.compile(r"%%|(?:\b(?P<name>[A-Za-z_]\w*)=)?%[-#0 +]*\d*(?:\.\d+)?[sdirxfgc]")
_AT_END: Final = re.compile(r"(?:\s+[A-Za-z_]\w*=%[-#0 +]*\d*(?:\.\d+)?[sdirxfgc])+(?=\s*(?:\(.*\))?\s*$)")
_OWN: Final = frozenset(("time", "level", "node", "logger", "message", "exception", "stack"))


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time (UTC), level, `constants`, logger, message, its fields, traceback."""

    def __init__(self, constants: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._constants = constants or {}

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a line end."""
        origin = {"time": utc(record.created), "level": record.levelname, **self._constants, "logger": record.name}
        document = origin | _parsed(record)
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            document["stack"] = self.formatStack(record.stack_info)
        return line(document)


def line(document: Mapping[str, object]) -> str:
    """A JSON object on one line; values of types that JSON does not have are written as text."""
    return visible_json(json.dumps(document, ensure_ascii=False, default=str))


def utc(seconds: float) -> str:
    """A time since the epoch as ISO 8601 with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03d}Z"


def _parsed(record: logging.LogRecord) -> dict[str, object]:
    """The message and the fields. A message that is not a format string with positional values has no fields."""
    values, template = record.args, record.msg
    if not values or not isinstance(values, tuple) or not isinstance(template, str):
        return {"message": record.getMessage()}
    names = list(_names(template))
    if len(names) != len(values):
        return {"message": record.getMessage()}
    fields = {
        (f"{name}_" if name in _OWN else name): _plain(value)
        for name, value in zip(names, values, strict=True)
        if name is not None
    }
    return {"message": _message(template, values), **fields}


def _names(template: str) -> Iterator[str | None]:
    """For each placeholder of the template, the name before it (`name=%s`), or None."""
    for found in _CONVERSION.finditer(template):
        if found[0] != "%%":
            yield found["name"]


def _message(template: str, values: tuple[object, ...]) -> str:
    """The text of the message without the fields at its end."""
    end = _AT_END.search(template)
    if end is None:
        return template % values
    first = sum(1 for _ in _names(template[: end.start()]))
    left_out = sum(1 for _ in _names(end[0]))
    kept = (*values[:first], *values[first + left_out :])
    return (template[: end.start()] + template[end.end() :]) % kept


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
