"""Protobuf with Google's library: each record is one message of a type from given descriptors."""

# ruff: noqa: ANN401 - descriptors and messages have no types here; Spark's types are imported late
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportMissingModuleSource=false

import functools
import importlib.util
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from odradek.pipeline.errors import MissingError, PipelineError
from odradek.pipeline.values.parsing import Framing, Parsing
from odradek.pipeline.values.records import Decode, RecordParser, unframed

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ProtobufParser(RecordParser):
    """Parses values as a Protobuf message. Unknown fields are ignored, as usual in Protobuf.

    Raises MissingError without protobuf, or without protoc for a .proto file; PipelineError for a file without the
    message.
    """

    def __init__(self, parsing: Parsing) -> None:
        if importlib.util.find_spec("google.protobuf") is None:
            raise MissingError("--value protobuf needs protobuf: pip install 'odradek[spark]'")
        assert parsing.schema is not None
        path, _, name = parsing.schema.partition("#")
        content = _compiled(Path(path)) if path.endswith(".proto") else parsing.read_schema()
        chosen = _choose(content, name, path)
        kind = _struct(_message_class(content, chosen).DESCRIPTOR, (), path)
        super().__init__(kind, functools.partial(_make_decode, content, chosen, parsing.framing))


def _compiled(path: Path) -> bytes:
    protoc = shutil.which("protoc")
    if protoc is None:
        raise MissingError(
            f"{path} needs protoc; or give the descriptors that `protoc -o FILE --include_imports` makes"
        )
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "descriptors"
        command = [protoc, f"-I{path.parent or '.'}", "--include_imports", "-o", str(target), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - found by its name
        if done.returncode:
            raise PipelineError(f"{path}: {done.stderr.strip()}")
        return target.read_bytes()


def _choose(content: bytes, name: str, path: str) -> str:
    """Return the message type: the named one, else the only one of the last file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError as error:
        raise PipelineError(f"{path} is not a FileDescriptorSet, as `protoc -o` makes it") from error
    if name or not files:
        return name
    prefix = f"{files[-1].package}." if files[-1].package else ""
    found = [f"{prefix}{message.name}" for message in files[-1].message_type]
    if len(found) != 1:
        raise PipelineError(f"{path} has the messages {', '.join(found) or 'none'}: say which as {path}#NAME")
    return found[0]


def _message_class(content: bytes, name: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(content).file:
            pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except (KeyError, TypeError) as error:
        raise PipelineError(f"the descriptors have no whole message {name!r} (--include_imports?): {error}") from error


def _make_decode(content: bytes, name: str, framing: Framing) -> Decode:
    message_class = _message_class(content, name)

    def decode(value: bytes) -> Any:
        body = unframed(value, framing)
        return _as_dict(message_class.FromString(_after_indexes(body) if framing == "confluent" else body))

    return decode


def _after_indexes(body: bytes) -> bytes:
    """Return the bytes after the message indexes of a Confluent registry: a count, and that many varints."""
    count, position = _varint(body, 0)
    for _ in range(count >> 1):  # zigzag
        _, position = _varint(body, position)
    return body[position:]


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[position]
        value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
        if byte < 0x80:
            return value, position


def _as_dict(message: Any) -> dict[str, Any]:
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        of_value = field.message_type.fields_by_name["value"]
        return {name: _single(one, of_value) for name, one in value.items()}
    if _is_repeated(field):
        return [_single(one, field) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        return _as_dict(value)
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return found.name if found else str(value)
    if field.cpp_type == field.CPPTYPE_UINT64:
        return Decimal(value)
    return value


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _struct(message: Any, above: tuple[str, ...], path: str) -> Any:
    from pyspark.sql import types as t

    if message.full_name in above:
        raise PipelineError(f"{path}: message {message.full_name} contains itself, which no column can")
    inside = (*above, message.full_name)
    return t.StructType([t.StructField(field.name, _type(field, inside, path)) for field in message.fields])


def _type(field: Any, above: tuple[str, ...], path: str) -> Any:
    from pyspark.sql import types as t

    if _is_map(field):
        fields = field.message_type.fields_by_name
        return t.MapType(_single_type(fields["key"], above, path), _single_type(fields["value"], above, path))
    single = _single_type(field, above, path)
    return t.ArrayType(single) if _is_repeated(field) else single


def _single_type(field: Any, above: tuple[str, ...], path: str) -> Any:
    from pyspark.sql import types as t

    if field.message_type is not None:
        is_time = field.message_type.full_name == _TIMESTAMP
        return t.TimestampType() if is_time else _struct(field.message_type, above, path)
    if field.type == field.TYPE_BYTES:
        return t.BinaryType()
    kinds = {
        field.CPPTYPE_INT32: t.IntegerType(), field.CPPTYPE_UINT32: t.LongType(), field.CPPTYPE_INT64: t.LongType(),
        field.CPPTYPE_UINT64: t.DecimalType(20, 0), field.CPPTYPE_FLOAT: t.FloatType(),
        field.CPPTYPE_DOUBLE: t.DoubleType(), field.CPPTYPE_BOOL: t.BooleanType(), field.CPPTYPE_ENUM: t.StringType(),
        field.CPPTYPE_STRING: t.StringType(),
    }  # fmt: skip
    return kinds[field.cpp_type]
