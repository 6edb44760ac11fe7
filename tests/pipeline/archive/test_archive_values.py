"""Keys and values as columns: JSON whose fields change, Avro, Protobuf, and values that cannot be parsed."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from odradek.pipeline import Parsing, archive, open_table, read_dead_letters, read_table
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.values.columns import open_parser
from tests.pipeline.archive.topics import create, produce, rows

NO_JSON = [
    b"nope", b"\xff\xfe", b"", b"5", b'"text"', b'[{"a":1}]', b'{"a":1} {"a":2}', b'{"a":1}} x', b'{"a":1},"x":{"b":2}',
]  # fmt: skip


def errors(spark: Any, path: Path) -> list[str]:
    return [row[-1] for row in rows(read_dead_letters(spark, path), "value", "error")]


def test_json_of_a_stream_whose_fields_change(spark, connection, tmp_path):
    """Invalid records, then a new field and a wider number, then types that do not fit; nothing is lost."""
    create(connection, "t", max_message_bytes="6000000")
    path = tmp_path / "table"
    first = [b'{"a":1,"b":{"c":"x"}}', None, b'{"a":null,"d":[1]}', b"{}", *NO_JSON]
    produce(connection, "t", first)
    report = archive(spark, "t", str(path), connection=connection, value=Parsing("json"))
    assert (report.complete, report.read, report.written) == (True, 13, 4)
    assert dict(report.skipped) == {"dead letter": 9}
    assert [row[3] for row in rows(read_dead_letters(spark, path), "value", "error")] == NO_JSON
    assert errors(spark, path) == ["value: not a JSON object", "value: not UTF-8", *["value: not a JSON object"] * 7]

    misfits = [b'{"a":"text"}', b'{"b":5}']
    wide = json.dumps({"text": "x" * 5_000_000}).encode()
    produce(connection, "t", [b'{"a":1.5,"b":{"c":"y","k":1}}', *misfits, b'{"z":true}'])
    report = archive(spark, "t", str(path), connection=connection, value=Parsing("json"))
    assert (report.written, dict(report.skipped)) == (2, {"dead letter": 2})
    assert "field 'a' is bigint in the table and string in some records" in report.notes[0]
    assert all("does not fit the table's fields" in error for error in errors(spark, path)[-2:])
    kind = "struct<a:double,b:struct<c:string,k:bigint>,d:array<bigint>,z:boolean>"
    assert read_table(spark, path).schema["parsed"].dataType.simpleString() == kind
    found = {row[2]: row[3] for row in rows(read_table(spark, path), "parsed")}
    assert found[0] == (1.0, ("x", None), None, None)
    assert (found[1], found[3], found[13]) == (None, (None,) * 4, (1.5, ("y", 1), None, None))
    from confluent_kafka import Producer

    producer = Producer({**connection.for_librdkafka(), "message.max.bytes": 6_000_000})
    producer.produce("t", wide)
    assert producer.flush(30) == 0
    assert archive(spark, "t", str(path), connection=connection, value=Parsing("json")).written == 1
    table = open_table(path)
    assert table.records + sum(file.records for file in table.dead_letters.values()) == 18


def test_a_schema_of_the_user_s_and_no_raw_columns(spark, connection, tmp_path):
    create(connection, "t")
    produce(connection, "t", [b'{"a":1,"more":2}', b'{"a":"x"}', None])
    (tmp_path / "fields.ddl").write_text("a INT, b STRING")
    value = Parsing("json", str(tmp_path / "fields.ddl"))
    report = archive(spark, "t", str(tmp_path / "table"), connection=connection, value=value, drop_raw=True)
    assert (report.written, dict(report.skipped)) == (2, {"dead letter": 1})
    frame = read_table(spark, tmp_path / "table")
    assert "value" not in frame.columns
    assert rows(frame, "parsed", "key") == [("t", 0, 0, (1, None), b"k0"), ("t", 0, 2, None, b"k2")]
    assert rows(read_dead_letters(spark, tmp_path / "table"), "value")[0][3] == b'{"a":"x"}'


def test_keys_are_parsed_beside_values(spark, connection, tmp_path):
    """An invalid key or value makes a dead letter with one of the errors; --drop-raw drops the raw bytes of both."""
    from confluent_kafka import Producer

    create(connection, "t")
    producer = Producer(connection.for_librdkafka())
    records = [
        (b'{"k":1}', b'{"a":1}'), (b"no", b'{"a":2}'), (b'{"k":3}', b"no"), (None, b'{"a":4}'), (b'{"k":5}', None),
        (b"no", b"no"),
    ]  # fmt: skip
    for key, value in records:
        producer.produce("t", value, key)
    assert producer.flush(30) == 0
    json_ = Parsing("json")
    report = archive(spark, "t", str(tmp_path / "raw"), connection=connection, value=json_, key=json_)
    assert (report.written, dict(report.skipped)) == (3, {"dead letter": 3})
    expected = [("t", 0, 0, (1,), (1,)), ("t", 0, 3, None, (4,)), ("t", 0, 4, (5,), None)]
    kept = read_table(spark, tmp_path / "raw")
    assert rows(kept, "parsed_key", "parsed") == expected
    assert [row[3:] for row in rows(kept, "key", "value")] == [records[offset] for offset in (0, 3, 4)]
    errors = [(row[2], row[3].partition(":")[0]) for row in rows(read_dead_letters(spark, tmp_path / "raw"), "error")]
    assert errors == [(1, "key"), (2, "value"), (5, "value")]
    archive(spark, "t", str(tmp_path / "parsed"), connection=connection, value=json_, key=json_, drop_raw=True)
    bare = read_table(spark, tmp_path / "parsed")
    assert rows(bare, "parsed_key", "parsed") == expected
    assert not {"key", "value"} & set(bare.columns)


AVRO = {
    "type": "record", "name": "Flight", "fields": [
        {"name": "origin", "type": "string"},
        {"name": "delay", "type": ["null", "int"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "seats", "type": {"type": "map", "values": {"type": "array", "items": "long"}}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["JET", "PROP"]}},
        {"name": "second", "type": "Kind"},
        {"name": "noon", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}  # fmt: skip
FLIGHT = {
    "origin": "JFK", "delay": None, "day": date(2013, 7, 1), "at": datetime(2013, 7, 1, 5, tzinfo=UTC),
    "price": Decimal("12.50"), "id": "00000000-0000-0000-0000-000000000007", "seats": {"a": [1, 2]}, "kind": "JET",
    "second": "PROP", "noon": 5,
}  # fmt: skip


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_avro(spark, connection, tmp_path):
    """Plain data, then a schema with a new field; a wrong datum is a dead letter, an incompatible schema is refused."""
    create(connection, "t")
    good = avro(AVRO, FLIGHT)
    produce(connection, "t", [good, good[:-3], good + b"x", None, b"", avro(AVRO, FLIGHT | {"delay": 7})])
    (tmp_path / "flight.avsc").write_text(json.dumps(AVRO))
    value, path = Parsing("avro", str(tmp_path / "flight.avsc")), str(tmp_path / "table")
    report = archive(spark, "t", path, connection=connection, value=value)
    assert (report.written, dict(report.skipped)) == (3, {"dead letter": 3})
    found = {row[2]: row[3] for row in rows(read_table(spark, path), "parsed")}
    expected = FLIGHT | {"at": datetime(2013, 7, 1, 5)}
    assert found[0].asDict() | {"at": None} == expected | {"at": None}
    assert (found[3], found[5].delay) == (None, 7)
    assert rows(read_table(spark, path).selectExpr("*", "unix_millis(parsed.at) ms"), "ms")[0][3] == 1_372_654_800_000
    more = AVRO | {"fields": [*AVRO["fields"], {"name": "gate", "type": "string"}]}
    (tmp_path / "flight.avsc").write_text(json.dumps(more))
    produce(connection, "t", [avro(more, FLIGHT | {"gate": "B4"})])
    assert archive(spark, "t", path, connection=connection, value=value).written == 1
    assert [row[3] for row in rows(read_table(spark, path), "parsed.gate")] == [None, None, None, "B4"]
    other = {"type": "record", "name": "Flight", "fields": [{"name": "origin", "type": "int"}]}
    (tmp_path / "flight.avsc").write_text(json.dumps(other))
    produce(connection, "t", [avro(other, {"origin": 1})])
    with pytest.raises(PipelineError, match="'origin' is string, not int"):
        archive(spark, "t", path, connection=connection, value=value)


def flight_descriptors() -> descriptor_pb2.FileDescriptorSet:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="flight.proto", package="air", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Flight")
    nested = message.nested_type.add(name="Seat")
    nested.field.add(name="row", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    fields = [
        ("origin", field.TYPE_STRING, field.LABEL_OPTIONAL, ""), ("big", field.TYPE_UINT64, field.LABEL_OPTIONAL, ""),
        ("seat", field.TYPE_MESSAGE, field.LABEL_OPTIONAL, ".air.Flight.Seat"),
        ("seats", field.TYPE_MESSAGE, field.LABEL_REPEATED, ".air.Flight.Seat"),
        ("tags", field.TYPE_MESSAGE, field.LABEL_REPEATED, ".air.Flight.TagsEntry"),
        ("at", field.TYPE_MESSAGE, field.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
        ("raw", field.TYPE_BYTES, field.LABEL_OPTIONAL, ""),
    ]  # fmt: skip
    for number, (name, kind, label, of_type) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=kind, label=label, type_name=of_type or None)
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    return descriptor_pb2.FileDescriptorSet(file=[times, file])


def test_protobuf(spark, connection, tmp_path):
    descriptors = flight_descriptors()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptors.file:
        pool.Add(file)
    flight_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("air.Flight"))
    flight = flight_class(origin="JFK", big=2**64 - 1, tags={"a": "b"}, raw=b"\x00")
    flight.seats.add(row=4)
    flight.at.seconds = 5
    (tmp_path / "flight.desc").write_bytes(descriptors.SerializeToString())
    framed = b"\x00\x00\x00\x00\x07\x00" + flight.SerializeToString()
    create(connection, "t")
    produce(connection, "t", [framed, flight.SerializeToString(), b"\x00\x00\x00\x00\x07\x00\xff", None])
    value = Parsing("protobuf", f"{tmp_path}/flight.desc#air.Flight", "confluent")
    report = archive(spark, "t", str(tmp_path / "table"), connection=connection, value=value)
    assert (report.written, dict(report.skipped)) == (2, {"dead letter": 2})
    first, null = (row[3] for row in rows(read_table(spark, tmp_path / "table"), "parsed"))
    assert (null, first.origin, first.big, first.seat, first.seats) == (None, "JFK", 2**64 - 1, None, [(4,)])
    assert (first.tags, first.raw) == ({"a": "b"}, b"\x00")
    with pytest.raises(PipelineError, match=r"no whole message 'air\.Train'"):
        open_parser(spark, Parsing("protobuf", f"{tmp_path}/flight.desc#air.Train"))


@pytest.mark.parametrize(("kind", "text", "said"), [
    ("json", "{", "neither Spark's DDL"), ("json", "a NONSENSE", "neither Spark's DDL"),
    ("avro", "{", "is not an Avro schema"), ("avro", '"int"', "has to be a record"),
    ("avro", '{"type":"record","name":"R","fields":[{"name":"u","type":["int","string"]}]}', "has no type in Spark"),
    ("avro", '{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}', "contains itself"),
    ("protobuf", "nonsense", "is not a FileDescriptorSet"),
])  # fmt: skip
def test_schemas_that_are_none(spark, tmp_path, kind, text, said):
    (tmp_path / "schema").write_text(text)
    with pytest.raises(PipelineError, match=said):
        open_parser(spark, Parsing(kind, str(tmp_path / "schema")))
