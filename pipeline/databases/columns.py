"""The mapping of types: a database's column, its JSON and Avro, and the column that is created for it.

docs/pipeline.md documents it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

    from odradek.pipeline.databases.avro import AvroType

SQLITE, POSTGRESQL = "sqlite", "postgresql"


class Kind(StrEnum):
    """The type of a column's values, independent of the database."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp without zone"
    INSTANT = "timestamp with zone"
    JSON = "json"
    ARRAY = "array"
    OTHER = "other"
    """Read and written in the database's text form: intervals, addresses, ranges, bit strings."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `precision` and `scale` are a decimal's, if it has them; `element` is an array's element type."""

    name: str
    kind: Kind
    nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    element: "Column | None" = None
    filled: bool = False
    """True if the database supplies a value that a row omits: a default, an identity, a computed column."""


def column_of(name: str, declared: "TypeEngine[Any]", *, nullable: bool = True, filled: bool = False) -> Column:
    """Return the column for a reflected SQLAlchemy column."""
    from sqlalchemy import types

    kind = _kind(declared)
    item: TypeEngine[Any] | None = getattr(declared, "item_type", None)
    element = column_of(name, item) if item is not None and kind is Kind.ARRAY else None
    precision = declared.precision if isinstance(declared, types.Numeric) and kind is Kind.DECIMAL else None
    scale = declared.scale if isinstance(declared, types.Numeric) and precision is not None else None
    return Column(name, kind, nullable, precision, scale or (0 if precision is not None else None), element, filled)


def _kind(declared: "TypeEngine[Any]") -> Kind:
    from sqlalchemy import types

    if isinstance(declared, types.DateTime):
        return Kind.INSTANT if declared.timezone else Kind.TIMESTAMP
    if isinstance(declared, types.Time):
        return Kind.OTHER if declared.timezone else Kind.TIME
    by_type: Sequence[tuple[type[Any] | tuple[type[Any], ...], Kind]] = (
        (types.Boolean, Kind.BOOL),
        (types.Integer, Kind.INT),
        (types.Float, Kind.FLOAT),
        (types.Numeric, Kind.DECIMAL),
        ((types.String, types.Uuid), Kind.TEXT),
        ((types.LargeBinary, types.BINARY, types.VARBINARY), Kind.BINARY),
        (types.Date, Kind.DATE),
        (types.JSON, Kind.JSON),
        (types.ARRAY, Kind.ARRAY),
    )
    return next((kind for known, kind in by_type if isinstance(declared, known)), Kind.OTHER)


_CREATED: Final = {
    # kind: (SQLite, PostgreSQL)
    Kind.BOOL: ("BOOLEAN", "boolean"),
    Kind.INT: ("BIGINT", "bigint"),
    Kind.FLOAT: ("DOUBLE", "double precision"),
    Kind.DECIMAL: ("TEXT", "numeric"),
    Kind.TEXT: ("TEXT", "text"),
    Kind.BINARY: ("BLOB", "bytea"),
    Kind.DATE: ("DATE", "date"),
    Kind.TIME: ("TIME", "time"),
    Kind.TIMESTAMP: ("DATETIME", "timestamp"),
    Kind.INSTANT: ("TEXT", "timestamptz"),
    Kind.JSON: ("JSON", "jsonb"),
    Kind.ARRAY: ("JSON", ""),
    Kind.OTHER: ("TEXT", "text"),
}
"""SQLite has neither exact decimals nor time zones: such values are stored there as text, so that they stay exact."""


def created_type(column: Column, dialect: str) -> str:
    """Return the SQL type of the column in a table that is created for a topic."""
    if dialect == SQLITE:
        return _CREATED[column.kind][0]
    if column.kind is Kind.ARRAY:
        return f"{created_type(column.element or Column(column.name, Kind.TEXT), dialect)}[]"
    if column.kind is Kind.DECIMAL and column.precision is not None:
        return f"numeric({column.precision}, {column.scale})"
    return _CREATED[column.kind][1]


_AVRO: Final[dict[Kind, "AvroType"]] = {
    Kind.BOOL: "boolean",
    Kind.INT: "long",
    Kind.FLOAT: "double",
    Kind.DECIMAL: {"type": "string", "odradek": "decimal"},
    Kind.TEXT: "string",
    Kind.BINARY: "bytes",
    Kind.DATE: {"type": "int", "logicalType": "date"},
    Kind.TIME: {"type": "long", "logicalType": "time-micros"},
    Kind.TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    Kind.INSTANT: {"type": "long", "logicalType": "timestamp-micros"},
    Kind.JSON: {"type": "string", "odradek": "json"},
    Kind.OTHER: {"type": "string", "odradek": "other"},
}
"""The attribute `odradek`, which other readers ignore, distinguishes kinds without an Avro type of their own."""


def avro_schema(name: str, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the schema of a table's rows. Raises PipelineError for a name that Avro does not allow."""
    wrong = [
        one for one in (name, *(column.name for column in columns)) if not re.fullmatch(r"[A-Za-z_]\w*", one, re.A)
    ]
    if wrong:
        raise PipelineError(f"{wrong[0]!r} cannot be a name in Avro, which has letters, digits and _: use --value json")
    fields = [{"name": column.name, "type": _avro_type(column)} for column in columns]
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(column: Column) -> "AvroType":
    plain = _AVRO.get(column.kind)
    if column.kind is Kind.ARRAY:
        plain = {"type": "array", "items": _avro_type(column.element or Column(column.name, Kind.TEXT))}
    if column.kind is Kind.DECIMAL and column.precision is not None:
        plain = {
            "type": "bytes", "logicalType": "decimal", "precision": column.precision, "scale": column.scale
        }  # fmt: skip
    assert plain is not None
    return ["null", plain] if column.nullable else plain


_LOGICAL: Final = {
    "decimal": Kind.DECIMAL,
    "date": Kind.DATE,
    "time-millis": Kind.TIME,
    "time-micros": Kind.TIME,
    "timestamp-millis": Kind.INSTANT,
    "timestamp-micros": Kind.INSTANT,
    "local-timestamp-millis": Kind.TIMESTAMP,
    "local-timestamp-micros": Kind.TIMESTAMP,
}
_PRIMITIVE: Final = {
    "boolean": Kind.BOOL,
    "int": Kind.INT,
    "long": Kind.INT,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "bytes": Kind.BINARY,
    "fixed": Kind.BINARY,
    "string": Kind.TEXT,
    "enum": Kind.TEXT,
}


def columns_of_schema(schema: Any) -> list[Column]:  # noqa: ANN401 - a JSON document
    """Return the columns of an Avro schema's fields. Raises PipelineError if it is not the schema of a record."""
    try:
        assert schema["type"] == "record", "it is not a record's"
        return [_column_of_avro(field["name"], field["type"]) for field in schema["fields"]]
    except (KeyError, TypeError, AssertionError) as error:
        raise PipelineError(f"the schema is no Avro schema of a record: {error}") from error


def _column_of_avro(name: str, declared: Any) -> Column:  # noqa: ANN401 - a JSON document
    if isinstance(declared, list):
        others: list[Any] = [one for one in declared if one != "null"]  # pyright: ignore[reportUnknownVariableType]
        one = _column_of_avro(name, others[0]) if len(others) == 1 else Column(name, Kind.JSON)
        return Column(name, one.kind, len(others) < len(declared), one.precision, one.scale, one.element)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(declared, dict):
        return Column(name, _PRIMITIVE.get(declared, Kind.JSON), nullable=False)
    given: dict[str, Any] = declared  # pyright: ignore[reportUnknownVariableType]
    if given["type"] == "array":
        return Column(name, Kind.ARRAY, nullable=False, element=_column_of_avro(name, given["items"]))
    if (own := given.get("odradek")) in set(Kind):
        return Column(name, Kind(own), nullable=False)
    kind = _LOGICAL.get(given.get("logicalType", "")) or _PRIMITIVE.get(given["type"], Kind.JSON)
    precision = given.get("precision") if kind is Kind.DECIMAL else None
    return Column(name, kind, False, precision, given.get("scale", 0) if precision is not None else None)  # noqa: FBT003
