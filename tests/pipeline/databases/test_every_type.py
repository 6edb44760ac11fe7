"""Each type in the table of docs/pipeline.md goes from a database through a topic into a table with the same types."""

import json

import pytest
from confluent_kafka import Consumer
from sqlalchemy import NullPool, create_engine, text

from odradek.pipeline import Export, Load, export, load

POSTGRES_TYPES = {
    "flag boolean": ("true", "false"),
    "small smallint": ("-32768", "7"),
    "big bigint": ("9223372036854775807", "-9223372036854775808"),
    "real4 real": ("0.1", "'NaN'"),
    "real8 double precision": ("1e308", "'-Infinity'"),
    "money_like numeric(20,4)": ("1234567890123456.7891", "0.5"),
    "free numeric": ("123456789012345678901234567890.123456789", "-0.000000000000000000001"),
    "words text": ("'žluťoučký \"kůň\" \\ \n'", "''"),
    "short varchar(5)": ("'abc'", "'12345'"),
    "padded char(3)": ("'x'", "'xyz'"),
    "raw bytea": (r"'\x00ff10'", "''"),
    "day date": ("'0001-01-01'", "'2024-02-29'"),
    "clock time": ("'23:59:59.999999'", "'00:00'"),
    "stamp timestamp": ("'2024-02-29 12:00:00.000001'", "'1900-01-01'"),
    "instant timestamptz": ("'2024-02-29 12:00:00.5+02'", "'9999-12-31 23:59:59.999999Z'"),
    "document json": ("'{\"a\":[1,1.10,12345678901234567890.123]}'", "'\"text\"'"),
    "binary_document jsonb": ('\'{"a": {"b": null}}\'', "'[1.10, true]'"),
    "ids uuid": ("'6f0a3a5e-8a1c-4a0e-9d55-0d1f0e1f2a3b'", "'00000000-0000-0000-0000-000000000000'"),
    "span interval": ("'1 month 2 days 03:04:05.6'", "'-1 year'"),
    "address inet": ("'10.0.0.1/8'", "'::1'"),
    "zoned_clock timetz": ("'12:00:00+02'", "'23:59:59.5-11'"),
    "bits bit varying(8)": ("B'1010'", "B''"),
    "within int4range": ("'[1,5)'", "'empty'"),
    "numbers int[]": ("'{1,NULL,3}'", "'{}'"),
    "matrix bigint[]": ("'{{1,2},{3,4}}'", "'{5}'"),
    "texts text[]": ("ARRAY['a,b', NULL, 'NULL', 'q\"\\', '{}', '']", "'{}'"),
    "days date[]": ("'{2024-01-01}'", "'{NULL}'"),
    "blobs bytea[]": (r"ARRAY['\x00ff'::bytea]", "'{}'"),
    "uuids uuid[]": ("'{6f0a3a5e-8a1c-4a0e-9d55-0d1f0e1f2a3b}'", "'{}'"),
    "flags boolean[]": ("'{t,f,NULL}'", "'{}'"),
    "sums numeric(9,2)[]": ("'{1.10,2.00}'", "'{}'"),
    "instants timestamptz[]": ("'{2024-01-01 00:00:00.25+01}'", "'{}'"),
}
SQLITE_TYPES = {
    "flag BOOLEAN": ("1", "0"),
    "big BIGINT": ("9223372036854775807", "-9223372036854775808"),
    "real8 REAL": ("0.1", "9e999"),
    "price DECIMAL(10,2)": ("12.5", "-0.01"),
    "words TEXT": ("'žluťoučký \"kůň\" \\'", "''"),
    "raw BLOB": ("x'00ff'", "x''"),
    "day DATE": ("'2024-02-29'", "'0001-01-01'"),
    "clock TIME": ("'23:59:59.999999'", "'00:00:00.000000'"),
    "stamp DATETIME": ("'2024-02-29 12:00:00.000001'", "'1900-01-01 00:00:00.000000'"),
    "document JSON": ("'{\"a\":[1,1.10,null]}'", "'\"text\"'"),
}


def make_table(url: str, name: str, types: dict[str, tuple[str, str]], *, rows: bool) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {', '.join(types)})")
        for number in (0, 1) if rows else ():
            values = ", ".join(pair[number] for pair in types.values()).replace("%", "%%")
            connection.exec_driver_sql(f"INSERT INTO {name} VALUES ({number + 1}, {values})")
        if rows:
            connection.exec_driver_sql(f"INSERT INTO {name} (id) VALUES (3)")


def content(url: str, name: str, types: dict[str, tuple[str, str]]) -> list[tuple[object, ...]]:
    """The rows in the database's own text format, where equal values have equal texts."""
    kind = "quote" if url.startswith("sqlite") else ""
    columns = ", ".join(f"{kind}({one.split()[0]})" + ("" if kind else "::text") for one in types)
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return [tuple(row) for row in connection.execute(text(f"SELECT id, {columns} FROM {name} ORDER BY id"))]


TYPES = {"sqlite": SQLITE_TYPES, "postgres": POSTGRES_TYPES}


@pytest.mark.parametrize("value", ["json", "avro"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_each_type_comes_back_as_it_was(request, spark, connection, tmp_path, kind, value):
    url, types = request.getfixturevalue(kind), dict(TYPES[kind])
    if value == "avro":
        types.pop("matrix bigint[]", None)  # Avro's arrays have a declared item type: one dimension
    schema = tmp_path / "t.avsc" if value == "avro" else None
    make_table(url, "source", types, rows=True)
    make_table(url, "target", types, rows=False)
    loaded = load(spark, connection, Load(url, "source", "t", incrementing="id", value=value, schema=schema))
    assert (loaded.written, loaded.complete) == (3, True)
    exported = export(spark, connection, Export("t", url, "target", value=value, schema=schema))
    assert (exported.written, exported.skipped["dead letter"]) == (3, 0)
    assert content(url, "target", types) == content(url, "source", types)


def test_the_json_of_each_kind(spark, connection, broker, postgres):
    make_table(postgres, "source", POSTGRES_TYPES, rows=True)
    load(spark, connection, Load(postgres, "source", "t", incrementing="id"))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    messages = consumer.consume(3, 30)
    consumer.close()
    values = sorted((json.loads(one.value()) for one in messages), key=lambda one: one["id"])
    assert sorted(one.key() for one in messages) == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    first, second, nulls = values
    assert set(nulls.values()) == {3, None}
    assert first["money_like"] == "1234567890123456.7891"
    assert second["free"] == "-0.000000000000000000001"
    assert first["raw"] == "AP8Q"
    assert (second["real4"], second["real8"]) == ("NaN", "-Infinity")
    assert (first["stamp"], first["instant"]) == ("2024-02-29T12:00:00.000001", "2024-02-29T10:00:00.500000Z")
    assert second["clock"] == "00:00:00.000000"
    assert first["document"]["a"][:2] == [1, 1.1]
    assert first["matrix"] == [[1, 2], [3, 4]]
    assert first["span"] == "1 mon 2 days 03:04:05.6"
