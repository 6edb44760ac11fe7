"""Infers the columns of a new table for a topic without a schema, from its JSON values."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from odradek.pipeline.databases.columns import Column, Kind
from odradek.pipeline.databases.rows import Fields, Record

Kinds = dict[str, Kind | None]
"""The kind of each field, None if all values were null."""
_INT_64: Final = range(-(2**63), 2**63)


def kinds_of(fields: Fields, records: Iterable[Record]) -> Kinds:
    """Return the kinds of the records' fields; records that cannot be decoded are ignored here, and become dead letters
    later.
    """
    found: Kinds = {}
    for record in records:
        try:
            row = fields.key_of(record) | (fields.fields_of(record) or {})
        except ValueError:
            continue
        found = merged(found, {name: kind_of(value) for name, value in row.items()})
    return found


def kind_of(value: Any) -> Kind | None:  # noqa: ANN401 - JSON values
    """Return the kind of a JSON value; a string is always text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return Kind.BOOL
    if isinstance(value, int):
        return Kind.INT if value in _INT_64 else Kind.DECIMAL
    if isinstance(value, Decimal):
        return Kind.FLOAT
    return Kind.TEXT if isinstance(value, str) else Kind.JSON


_WIDER: Final = (Kind.INT, Kind.FLOAT, Kind.DECIMAL)


def merged(one: Kinds, other: Kinds) -> Kinds:
    """Return the fields of both: the wider kind of numbers, JSON for kinds without a common one."""
    return one | {name: _common(one.get(name), kind) for name, kind in other.items()}


def _common(one: Kind | None, other: Kind | None) -> Kind | None:
    if one is None or other is None or one == other:
        return one or other
    if one in _WIDER and other in _WIDER:
        return max(one, other, key=_WIDER.index)
    return Kind.JSON


def columns_of(kinds: Mapping[str, Kind | None]) -> list[Column]:
    """Return the columns; a field that was always null is text."""
    return [Column(name, kind or Kind.TEXT) for name, kind in kinds.items()]
