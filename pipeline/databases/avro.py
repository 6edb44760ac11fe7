"""Avro: rows encoded without a header, and the schema in a separate file."""

import importlib
import importlib.util
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from odradek.pipeline.databases.engine import NEEDED
from odradek.pipeline.databases.texts import parse_json
from odradek.pipeline.errors import MissingError, PipelineError

AvroType = str | dict[str, Any] | list[Any]
Schema = dict[str, Any]


def read_schema(path: Path) -> Schema:
    """Return the schema in a file. Raises PipelineError if there is no file, or it is not an Avro schema."""
    check_installed()
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        schema: Any = json.loads(path.read_text(encoding="utf-8"))
        parse_schema(schema)
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from error
    except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{path} is no Avro schema: {error}") from error
    return schema


def keep_schema(path: Path, schema: Schema) -> None:
    """Write the schema to the file, for readers of the topic; raises PipelineError if the file has another one."""
    check_installed()
    if not path.exists():
        path.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
    elif read_schema(path) != schema:
        raise PipelineError(
            f"{path} has another schema than the table now: the topic would hold both; name another file and topic"
        )


def check_installed() -> None:
    """Raise MissingError if fastavro is not installed."""
    if importlib.util.find_spec("fastavro") is None:
        raise MissingError(f"Avro needs fastavro: {NEEDED}")


def encoder(schema: Schema) -> Callable[[Mapping[str, Any]], bytes]:
    """Return a function from a row to its encoding; it raises ValueError or TypeError for a value that the schema does
    not allow.
    """
    fastavro: Any = importlib.import_module("fastavro")
    parsed = fastavro.parse_schema(schema)

    def encode(row: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row, strict=True)
        return out.getvalue()

    return encode


def decoder(schema: Schema) -> Callable[[bytes], dict[str, Any]]:
    """Return a function from bytes to a row; it raises ValueError for bytes that are not exactly one datum of the
    schema.
    """
    fastavro: Any = importlib.import_module("fastavro")
    parsed = fastavro.parse_schema(schema)
    as_json = [field["name"] for field in schema["fields"] if '"odradek": "json"' in json.dumps(field)]

    def decode(data: bytes) -> dict[str, Any]:
        source = io.BytesIO(data)
        try:
            row: Any = fastavro.schemaless_reader(source, parsed, None)
        except Exception as error:
            # fastavro raises various exceptions for invalid data.
            raise ValueError(f"it does not follow the Avro schema: {type(error).__name__} {error}".strip()) from error
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes follow the Avro datum")
        for name in as_json:
            row[name] = None if row[name] is None else _json(row[name])
        return row

    return decode


def _json(text: Any) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(text, list):
        return [one if one is None else parse_json(one) for one in cast("list[Any]", text)]
    return parse_json(text)
