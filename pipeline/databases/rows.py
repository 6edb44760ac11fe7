"""Conversion of records to changes of a table: an upsert or a deletion of a row, or the reason why there is none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, cast

from odradek.pipeline.databases.avro import Schema, decoder
from odradek.pipeline.databases.columns import Column, Kind
from odradek.pipeline.databases.decode import from_record
from odradek.pipeline.databases.texts import parse_json

Mode = Literal["upsert", "append"]
PLACE: Final = ("kafka_topic", "kafka_partition", "kafka_offset")
"""The columns with the source record of an appended row."""


class Record(NamedTuple):
    """The fields of a record that are used."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Change:
    """A row to write or, with `row` None, the key of a row to delete."""

    key: tuple[Any, ...]
    row: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RecordMapping:
    """The mapping of the topic's records to the table: picklable, converted to a function in each task by
    `changes_of`.
    """

    topic: str
    mode: Mode
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    key_from_value: bool = False
    schema: Schema | None = None

    def changes_of(self) -> Callable[[Record], Change]:
        """Return a function from a record to its change; it raises ValueError with the reason if there is none."""
        reader = Fields(self.key, self.key_from_value, self.schema)
        by_name = {column.name: column for column in self.columns}
        placed = frozenset(PLACE) & by_name.keys()

        def change(record: Record) -> Change:
            key, fields = reader.key_of(record), reader.fields_of(record)
            if fields is None and self.mode == "append":
                raise ValueError("the value is null, and append does not delete")
            if fields is None:
                return Change(tuple(_value(by_name, name, key) for name in self.key), None)
            row = _row(by_name, fields | key)
            if self.mode == "append":
                place = (self.topic, record.partition, record.offset)
                row |= {name: one for name, one in zip(PLACE, place, strict=True) if name in placed}
                return Change(place, row)
            if missing := [name for name in self.key if row.get(name) is None]:
                raise ValueError(f"the key has no {missing[0]}")
            _check_agreement(by_name, fields, key)
            return Change(tuple(row[name] for name in self.key), row)

        return change


def _value(columns: Mapping[str, Column], name: str, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401
    value = from_record(columns[name], fields.get(name))
    if value is None:
        raise ValueError(f"the key has no {name}")
    return value


def _row(columns: Mapping[str, Column], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole row: columns missing in the record are NULL, unless the database fills them."""
    if unknown := [name for name in fields if name not in columns]:
        raise ValueError(f"the table has no column {', '.join(map(repr, unknown))}")
    row: dict[str, Any] = {name: None for name, column in columns.items() if not column.filled and name not in PLACE}
    return row | {name: from_record(columns[name], value) for name, value in fields.items()}


def _check_agreement(columns: Mapping[str, Column], fields: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    for name in key:
        if name in fields and from_record(columns[name], fields[name]) != from_record(columns[name], key[name]):
            raise ValueError(f"the key says {name} {key[name]!r}, the value {fields[name]!r}")


@dataclass(slots=True)
class Fields:
    """Decodes keys and values. A key is a JSON object, or for a single column its value, as JSON or as text."""

    key: tuple[str, ...]
    key_from_value: bool
    schema: Schema | None
    _decode: Callable[[bytes], dict[str, Any]] | None = field(init=False, default=None)

    def key_of(self, record: Record) -> dict[str, Any]:
        """Return the fields of the key, empty if the key is in the value. Raises ValueError."""
        if not self.key or self.key_from_value:
            return {}
        if record.key is None:
            raise ValueError("the record has no key")
        try:
            found = parse_json(record.key)
        except ValueError:
            found = record.key.decode()
        if isinstance(found, dict):
            fields = cast("dict[str, Any]", found)
            if set(fields) != set(self.key):
                raise ValueError(f"the key has {', '.join(fields) or 'nothing'} instead of {', '.join(self.key)}")
            return fields
        if len(self.key) > 1:
            raise ValueError(f"the key is no JSON object of {', '.join(self.key)}")
        return dict.fromkeys(self.key, found)

    def fields_of(self, record: Record) -> dict[str, Any] | None:
        """Return the fields of the value, None for a null one. Raises ValueError."""
        if record.value is None:
            return None
        if self.schema is not None:
            self._decode = self._decode or decoder(self.schema)
            return self._decode(record.value)
        try:
            found = parse_json(record.value)
        except ValueError as error:
            raise ValueError(f"the value is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise ValueError("the value is no JSON object")  # noqa: TRY004 - one kind of error for every wrong record
        return cast("dict[str, Any]", found)


def place_columns() -> Sequence[Column]:
    """Return the columns of `PLACE`."""
    kinds = (Kind.TEXT, Kind.INT, Kind.INT)
    return [Column(name, kind, nullable=False) for name, kind in zip(PLACE, kinds, strict=True)]
