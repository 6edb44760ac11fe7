"""Converts records to rows: checks JSON or Avro values against columns, and converts them for a database driver."""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, cast

from odradek.pipeline.databases.columns import POSTGRESQL, Column, Kind
from odradek.pipeline.databases.encode import json_of
from odradek.pipeline.databases.texts import decimal_text, dump_json, time_text

SHOWN_CHARACTERS: Final = 80
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_INT_64: Final = range(-(2**63), 2**63)


def _bool(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, bool):
        return value
    raise ValueError


def _int(value: Any) -> int:  # noqa: ANN401
    if isinstance(value, int) and not isinstance(value, bool) and value in _INT_64:
        return value
    raise ValueError


def _float(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    if value in _NOT_FINITE:
        return float(value)
    raise ValueError


def _decimal(value: Any) -> Decimal:  # noqa: ANN401
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, int | str | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    raise ValueError


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, datetime | time):
        return time_text(value)
    raise ValueError


def _number_text(value: Any) -> str:  # noqa: ANN401
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value)


def _binary(value: Any) -> bytes:  # noqa: ANN401
    return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)


def _date(value: Any) -> date:  # noqa: ANN401
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return date.fromisoformat(str(value))


def _time(value: Any) -> time:  # noqa: ANN401
    found = value if isinstance(value, time) else time.fromisoformat(value)
    if found.tzinfo is not None:
        raise ValueError("it has a zone")
    return found


def _timestamp(value: Any) -> datetime:  # noqa: ANN401
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if found.tzinfo is not None:
        raise ValueError("it has a zone, and the column has none")
    return found


def _instant(value: Any) -> datetime:  # noqa: ANN401
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("it has no zone, and the column has one")
    return found


_FROM_RECORD: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.BOOL: _bool,
    Kind.INT: _int,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.TEXT: _text,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.INSTANT: _instant,
    Kind.JSON: dump_json,
    Kind.OTHER: _number_text,
}


def from_record(column: Column, value: Any) -> Any:  # noqa: ANN401 - a JSON or Avro value
    """Return the column's value, in the form of `from_database`. Raises ValueError if it is not a value of the
    column.
    """
    if value is None:
        return None
    if column.kind is Kind.ARRAY:
        if not isinstance(value, list):
            raise ValueError(f"{column.name}: {_shown(value)} is no array")
        return [_element(column, one) for one in cast("list[Any]", value)]
    try:
        return _fitting(column, _FROM_RECORD[column.kind](value))
    except (ValueError, TypeError, ArithmeticError, InvalidOperation, binascii.Error) as error:
        why = f": {error}" if str(error) and not isinstance(error, ArithmeticError) else ""
        raise ValueError(f"{column.name}: {_shown(value)} is no {column.kind}{why}") from error


def _fitting(column: Column, value: Any) -> Any:  # noqa: ANN401
    """Return the value; raises ValueError if the database would change or refuse it."""
    if isinstance(value, str):
        value.encode()  # databases do not store unpaired surrogates
    scale = column.scale
    if isinstance(value, Decimal) and scale is not None and value.is_finite() and round(value, scale) != value:
        raise ValueError(f"it has more than {scale} decimal places")
    return value


def _element(column: Column, value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return [_element(column, one) for one in cast("list[Any]", value)]
    return from_record(column.element or Column(column.name, Kind.TEXT), value)


def _shown(value: Any) -> str:  # noqa: ANN401
    text = dump_json(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def binder(column: Column, dialect: str) -> Callable[[Any], Any]:
    """Return a function from a value to the driver's parameter. PostgreSQL gets arrays as text, which it
    parses as the column's type, and other values unchanged; SQLite gets text for types that it does not have.
    """
    if column.kind is Kind.ARRAY:
        return array_literal if dialect == POSTGRESQL else partial(json_of, column)
    if dialect == POSTGRESQL:
        return _as_it_is
    return _FOR_SQLITE.get(column.kind, _as_it_is)


_FOR_SQLITE: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.BOOL: int,
    Kind.FLOAT: lambda value: value if value == value else "NaN",  # noqa: PLR0124 - SQLite makes NULL of NaN
    Kind.DECIMAL: decimal_text,
    Kind.DATE: date.isoformat,
    Kind.TIME: time_text,
    Kind.TIMESTAMP: lambda value: value.isoformat(" ", timespec="microseconds"),
    Kind.INSTANT: time_text,
}


def _as_it_is(value: Any) -> Any:  # noqa: ANN401
    return value


def array_literal(values: list[Any]) -> str:
    """Return PostgreSQL's text form of an array."""
    return "{" + ",".join(_array_element(one) for one in values) + "}"


def _array_element(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return array_literal(cast("list[Any]", value))
    text = f"\\x{value.hex()}" if isinstance(value, bytes) else _plain(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, datetime | time):
        return time_text(value)
    return repr(value) if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
