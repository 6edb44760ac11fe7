"""Adds parsed columns to batches, and separates dead letters."""

# ruff: noqa: ANN401 - Spark's types; pyspark is imported late
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.pipeline.values.parsing import Parsing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARSED: Final = {"value": "parsed", "key": "parsed_key"}
"""The parsed column by raw column."""
RAW: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


class Parser(Protocol):
    """The parser of one format."""

    def type_for(self, frame: "DataFrame", column: str, known: Any) -> tuple[Any, Sequence[str]]:
        """Return the struct type for a batch, evolved from the table's (None: none yet), and notes for the report. The
        type is None if no record has a field.
        """
        ...

    def parse(self, frame: "DataFrame", column: str, kind: Any, parsed: str, error: str) -> "DataFrame":
        """Add the columns `parsed` and `error`: for a record with bytes in `column` one of the two is null, else both.

        If `kind` is None, only `error` is added.
        """
        ...


@dataclass(frozen=True, slots=True)
class Split:
    """A batch with parsed columns, the records that could not be parsed (None: parsing is off), and the table's
    schema.
    """

    parsed: "DataFrame"
    dead_letters: "DataFrame | None"
    schema: Any
    notes: Sequence[str] = ()


class Columns:
    """The conversion of batches by `--value`, `--key` and `--drop-raw`."""

    def __init__(self, spark: "SparkSession", value: Parsing | None, key: Parsing | None, *, drop_raw: bool) -> None:
        wanted = {"value": value, "key": key}
        self._parsers = {name: open_parser(spark, one) for name, one in wanted.items() if one is not None}
        self._dropped = set(self._parsers) if drop_raw else set[str]()

    @property
    def wanted(self) -> bool:
        """True if keys or values are parsed."""
        return bool(self._parsers)

    def first_schema(self, schema: Any) -> Any:
        """Return the schema of a new table, before anything was parsed."""
        from pyspark.sql.types import StructType

        return StructType([field for field in schema.fields if field.name not in self._dropped])

    def split(self, raw: "DataFrame", table_schema: Any) -> Split:
        """Parse a batch into the columns of the table, which are extended by new fields of the records."""
        if not self._parsers:
            return Split(raw, None, table_schema)
        from pyspark.sql import functions as f

        frame, schema, notes = raw, table_schema, list[str]()
        errors: list[Any] = []
        for name, parser in self._parsers.items():
            kind, conflicts = parser.type_for(raw, name, _type_of(table_schema, PARSED[name]))
            frame = parser.parse(frame, name, kind, PARSED[name], f"{name}_error")
            errors.append(f.concat(f.lit(f"{name}: "), f.col(f"{name}_error")))
            schema = _with_type(schema, PARSED[name], kind)
            notes += conflicts
        error = f.coalesce(*errors)
        kept = [name for name in (*RAW, *PARSED.values()) if name in schema.fieldNames()]
        dead = frame.where(error.isNotNull()).select(*RAW, error.alias("error"))
        return Split(frame.where(error.isNull()).select(*kept), dead, schema, notes)


def open_parser(spark: "SparkSession", parsing: Parsing) -> Parser:
    """Return the parser of a format. Raises MissingError without its library, PipelineError for an invalid schema."""
    if parsing.kind == "json":
        from odradek.pipeline.values.json import JsonParser

        return JsonParser(spark, parsing)
    if parsing.kind == "avro":
        from odradek.pipeline.values.avro import AvroParser

        return AvroParser(parsing)
    from odradek.pipeline.values.protobuf import ProtobufParser

    return ProtobufParser(parsing)


def _type_of(schema: Any, name: str) -> Any:
    return schema[name].dataType if name in schema.fieldNames() else None


def _with_type(schema: Any, name: str, kind: Any) -> Any:
    """Return the schema with a column of this type; a new one is inserted before the partitioning columns."""
    from pyspark.sql.types import StructField, StructType

    if kind is None:
        return schema
    field = StructField(name, kind, nullable=True)
    if name in schema.fieldNames():
        return StructType([field if one.name == name else one for one in schema.fields])
    known = {*RAW, *PARSED.values()}
    front = [one for one in schema.fields if one.name in known]
    return StructType([*front, field, *(one for one in schema.fields if one.name not in known)])
