"""Converts a database's rows to records: drivers' values to driver-independent Python values, then to JSON or Avro."""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from odradek.pipeline.databases.avro import Schema, encoder
from odradek.pipeline.databases.columns import Column, Kind
from odradek.pipeline.databases.engine import text_of
from odradek.pipeline.databases.texts import decimal_text, quoted, time_text
from odradek.pipeline.errors import PipelineError

SHOWN_CHARACTERS: Final = 80


def _text(raw: Any) -> str:  # noqa: ANN401
    return raw if isinstance(raw, str) else str(raw)


def _binary(raw: Any) -> bytes:  # noqa: ANN401
    return raw.encode() if isinstance(raw, str) else bytes(raw)


def _bool(raw: Any) -> bool:  # noqa: ANN401
    if raw not in {0, 1}:
        raise ValueError("neither true nor false")
    return bool(raw)


def _int(raw: Any) -> int:  # noqa: ANN401
    if isinstance(raw, float) and not raw.is_integer():
        raise ValueError("no whole number")
    return int(raw)


def _decimal(raw: Any) -> Decimal:  # noqa: ANN401
    return raw if isinstance(raw, Decimal) else Decimal(str(raw))


def _date(raw: Any) -> date:  # noqa: ANN401
    return raw if isinstance(raw, date) else date.fromisoformat(raw)


def _time(raw: Any) -> time:  # noqa: ANN401
    return raw if isinstance(raw, time) else time.fromisoformat(raw)


def _timestamp(raw: Any) -> datetime:  # noqa: ANN401
    value = raw if isinstance(raw, datetime) else datetime.fromisoformat(raw)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _instant(raw: Any) -> datetime:  # noqa: ANN401
    value = raw if isinstance(raw, datetime) else datetime.fromisoformat(raw)
    if value.tzinfo is None:
        raise ValueError("a time without a zone")
    return value.astimezone(UTC)


def _json_text(raw: Any) -> str:  # noqa: ANN401
    text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
    json.loads(text)  # SQLite does not check a column's JSON
    return text


_FROM_DATABASE: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.BOOL: _bool,
    Kind.INT: _int,
    Kind.FLOAT: float,
    Kind.DECIMAL: _decimal,
    Kind.TEXT: _text,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.INSTANT: _instant,
    Kind.JSON: _json_text,
    Kind.OTHER: _text,
}


def from_database(column: Column, raw: Any) -> Any:  # noqa: ANN401 - a driver's value
    """Return the driver-independent value for a driver's value. Raises PipelineError for an invalid one."""
    if raw is None:
        return None
    if column.kind is Kind.ARRAY:
        return [from_array(column, one) for one in raw]
    try:
        value = _FROM_DATABASE[column.kind](raw)
    except (ValueError, TypeError, ArithmeticError) as error:
        said = repr(raw)[:SHOWN_CHARACTERS]
        raise PipelineError(f"column {column.name!r}: {said} is no {column.kind}: {error}") from error
    if column.scale is not None and isinstance(value, Decimal) and value.is_finite():
        return round(value, column.scale)
    return value


def from_array(column: Column, raw: Any) -> Any:  # noqa: ANN401 - a driver's value
    """Return the value of an array's element, which in a multi-dimensional array is an array itself."""
    if isinstance(raw, list):
        return [from_array(column, one) for one in raw]  # pyright: ignore[reportUnknownVariableType]
    return from_database(column.element or Column(column.name, Kind.TEXT), raw)


def _float_json(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


_JSON: Final[Mapping[Kind, Callable[[Any], str]]] = {
    Kind.BOOL: lambda value: "true" if value else "false",
    Kind.INT: str,
    Kind.FLOAT: _float_json,
    Kind.DECIMAL: lambda value: f'"{decimal_text(value)}"',
    Kind.TEXT: quoted,
    Kind.BINARY: lambda value: f'"{base64.b64encode(value).decode()}"',
    Kind.DATE: lambda value: f'"{value.isoformat()}"',
    Kind.TIME: lambda value: f'"{time_text(value)}"',
    Kind.TIMESTAMP: lambda value: f'"{time_text(value)}"',
    Kind.INSTANT: lambda value: f'"{time_text(value)}"',
    Kind.JSON: str,
    Kind.OTHER: quoted,
}


def json_of(column: Column, value: Any) -> str:  # noqa: ANN401 - as `from_database` returns it
    """Return the value as JSON text."""
    if value is None:
        return "null"
    if isinstance(value, list):
        # all dimensions of an array have one element type: `column` stays the array's until the elements are reached
        inner = column if any(isinstance(one, list) for one in value) else column.element  # pyright: ignore[reportUnknownVariableType]
        return f"[{','.join(json_of(inner or column, one) for one in value)}]"  # pyright: ignore[reportUnknownVariableType]
    return _JSON[column.element.kind if column.element else column.kind](value)


def json_object(columns: Sequence[Column], values: Sequence[Any]) -> bytes:
    """Return the row as a JSON object without spaces, with the columns in order: equal rows have equal bytes."""
    pairs = (f"{quoted(one.name)}:{json_of(one, value)}" for one, value in zip(columns, values, strict=True))
    return f"{{{','.join(pairs)}}}".encode()


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The encoding of rows as records: the columns, those of the key, and an Avro schema (None: JSON)."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    schema: Schema | None = None

    def encoder(self) -> Callable[[Sequence[Any]], tuple[bytes | None, bytes]]:
        """Return a function from a driver's row to key and value. It raises PipelineError for a value that cannot be
        converted.
        """
        columns = self.columns
        places = [[column.name for column in columns].index(name) for name in self.key]
        key_columns = [columns[place] for place in places]
        as_avro = encoder(self.schema) if self.schema is not None else None

        def encode(row: Sequence[Any]) -> tuple[bytes | None, bytes]:
            values = [from_database(column, raw) for column, raw in zip(columns, row, strict=True)]
            key = json_object(key_columns, [values[place] for place in places]) if places else None
            return key, json_object(columns, values) if as_avro is None else _as_avro(as_avro, columns, values)

        return encode


def _as_avro(encode: Callable[[Mapping[str, Any]], bytes], columns: Sequence[Column], values: Sequence[Any]) -> bytes:
    row = {column.name: _avro_value(column, value) for column, value in zip(columns, values, strict=True)}
    try:
        return encode(row)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise PipelineError(f"a row does not fit the Avro schema: {text_of(error)}") from error


def _avro_value(column: Column, value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_avro_value(column.element or column, one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Decimal) and column.precision is None:
        return decimal_text(value)
    return value
