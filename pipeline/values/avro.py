"""Avro with fastavro: each record is one datum of a given schema."""

# ruff: noqa: ANN401 - Avro schemas are JSON, Spark's types are imported late
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false

import functools
import importlib.util
import io
import json
from typing import Any, Final

from odradek.pipeline.errors import MissingError, PipelineError
from odradek.pipeline.values.parsing import Framing, Parsing
from odradek.pipeline.values.records import Decode, RecordParser, unframed

_PRIMITIVES: Final = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "bytes": "binary", "fixed": "binary", "string": "string", "enum": "string",
}  # fmt: skip
_LOGICAL: Final = {
    "date": "date", "timestamp-millis": "timestamp", "timestamp-micros": "timestamp", "uuid": "string",
    "local-timestamp-millis": "timestamp_ntz", "local-timestamp-micros": "timestamp_ntz",
}  # fmt: skip
_TIMES: Final = ("time-millis", "time-micros")


class AvroParser(RecordParser):
    """Parses values as Avro. Raises MissingError without fastavro, PipelineError for an invalid schema, or one with
    types that Spark does not have.
    """

    def __init__(self, parsing: Parsing) -> None:
        if importlib.util.find_spec("fastavro") is None:
            raise MissingError("--value avro needs fastavro: pip install 'odradek[spark]'")
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

        try:
            schema = parse_schema(_without_times(json.loads(parsing.read_schema())))
        except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"{parsing.schema} is not an Avro schema: {error}") from error
        kind = _spark_type(schema, {}, str(parsing.schema))
        if kind.typeName() != "struct":
            raise PipelineError(f"{parsing.schema}: the schema has to be a record")
        super().__init__(kind, functools.partial(_make_decode, schema, parsing.framing))


def _make_decode(schema: Any, framing: Framing) -> Decode:
    from fastavro import parse_schema, schemaless_reader

    parsed = parse_schema(schema)

    def decode(value: bytes) -> Any:
        source = io.BytesIO(unframed(value, framing))
        found = schemaless_reader(source, parsed, None)
        if source.read(1):
            raise ValueError("bytes follow the datum")
        return _plain(found)

    return decode


def _plain(value: Any) -> Any:
    """Return values that Arrow accepts: UUIDs, which fastavro returns, are converted to text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value) if type(value).__name__ == "UUID" else value


def _without_times(schema: Any) -> Any:
    """Replace times of day by their numbers: Spark does not have a type for them."""
    if isinstance(schema, list):
        return [_without_times(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if not (name == "logicalType" and value in _TIMES)}
    return {name: _without_times(value) if name in {"type", "fields", "items", "values"} else value
            for name, value in kept.items()}  # fmt: skip


def _spark_type(schema: Any, named: dict[str, Any], where: str) -> Any:  # noqa: C901 - one branch a kind of type
    from pyspark.sql import types as t

    if isinstance(schema, list):
        return _union(schema, named, where)
    if isinstance(schema, str):
        if schema in named:
            if named[schema] is None:
                raise PipelineError(f"{where}: type {schema!r} contains itself, which no column can")
            return named[schema]
        return _primitive(schema)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return t.DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _primitive(_LOGICAL[logical], spark=True)
    if kind in {"record", "error"}:
        named[schema["name"]] = None
        fields = [t.StructField(one["name"], _spark_type(one["type"], named, where)) for one in schema["fields"]]
        named[schema["name"]] = t.StructType(fields)
        return named[schema["name"]]
    if kind == "array":
        return t.ArrayType(_spark_type(schema["items"], named, where))
    if kind == "map":
        return t.MapType(t.StringType(), _spark_type(schema["values"], named, where))
    found = _primitive(kind) if isinstance(kind, str) else _spark_type(kind, named, where)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _primitive(name: str, *, spark: bool = False) -> Any:
    from pyspark.sql import types as t

    kinds = {
        "boolean": t.BooleanType(), "int": t.IntegerType(), "bigint": t.LongType(), "float": t.FloatType(),
        "double": t.DoubleType(), "binary": t.BinaryType(), "string": t.StringType(), "date": t.DateType(),
        "timestamp": t.TimestampType(), "timestamp_ntz": t.TimestampNTZType(),
    }  # fmt: skip
    return kinds[name if spark else _PRIMITIVES[name]]


def _union(schemas: list[Any], named: dict[str, Any], where: str) -> Any:
    from odradek.pipeline.table.growth import widened

    kinds = [_spark_type(one, named, where) for one in schemas if one != "null"]
    found = kinds[0] if kinds else _primitive("string")
    for kind in kinds[1:]:
        wider = found if kind == found else widened(found, kind)
        if wider is None:
            raise PipelineError(
                f"{where}: a union of {found.simpleString()} and {kind.simpleString()} has no type in Spark"
            )
        found = wider
    return found
