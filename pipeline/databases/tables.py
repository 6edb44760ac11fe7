"""Describes a database's tables, and creates those for topics."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.pipeline.databases.columns import Column, column_of, created_type
from odradek.pipeline.databases.engine import database_errors, open_engine
from odradek.pipeline.errors import PipelineError
from odradek.storage_backends.urls import masked_url as shown

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table


@dataclass(frozen=True, slots=True)
class Described:
    """The database's description of a table."""

    schema: str | None
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    unique: tuple[frozenset[str], ...] = ()
    """The sets of columns that are unique by the primary key, a constraint or an index."""


def split_name(table: str) -> tuple[str | None, str]:
    """Split `schema.table` or `table`."""
    schema, dot, name = table.rpartition(".")
    return (schema if dot else None), name


def describe(engine: "Engine", table: str) -> Described | None:
    """Return the table's description, None if there is no table. Raises SQLAlchemy's errors."""
    from sqlalchemy import MetaData, Table
    from sqlalchemy.exc import NoSuchTableError, SAWarning

    schema, name = split_name(table)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # types that SQLAlchemy does not know are read as text
            found = Table(name, MetaData(), autoload_with=engine, schema=schema)
    except NoSuchTableError:
        return None
    return Described(
        schema, name, tuple(map(_column, found.columns)), tuple(one.name for one in found.primary_key), _unique(found)
    )


def _column(found: Any) -> Column:  # noqa: ANN401 - a reflected column
    filled = found.server_default is not None or found.identity is not None or found.computed is not None
    return column_of(found.name, found.type, nullable=bool(found.nullable), filled=filled)


def _unique(found: "Table") -> tuple[frozenset[str], ...]:
    from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint

    sets = [
        frozenset(column.name for column in one.columns)
        for one in found.constraints
        if isinstance(one, PrimaryKeyConstraint | UniqueConstraint) and len(one.columns)
    ]
    partial_index = ("postgresql", "sqlite")
    sets += [
        frozenset(column.name for column in one.columns)
        for one in found.indexes
        if one.unique and not any(one.dialect_options[name].get("where") is not None for name in partial_index)
    ]
    return tuple(sets)


def described(url: str, table: str) -> Described:
    """Return the table's description. Raises PipelineError if there is no table."""
    engine = open_engine(url, exists=True)
    try:
        with database_errors(url):
            found = describe(engine, table)
    finally:
        engine.dispose()
    if found is None:
        raise PipelineError(f"{shown(url)} has no table {table!r}")
    return found


def create_table(connection: "Connection", table: str, columns: Sequence[Column], key: Sequence[str]) -> None:
    """Create the table with these columns and primary key. Raises SQLAlchemy's errors."""
    quote = connection.dialect.identifier_preparer.quote_identifier  # SQLAlchemy does not list every reserved word
    schema, name = split_name(table)
    lines = [
        f"{quote(one.name)} {created_type(one, connection.dialect.name)}{' NOT NULL' if one.name in key else ''}"
        for one in columns
    ]
    lines += [f"PRIMARY KEY ({', '.join(map(quote, key))})"] if key else []
    whole = f"{quote(schema)}.{quote(name)}" if schema else quote(name)
    # where a driver takes "%" for the start of a parameter, the quoting of names doubles it
    connection.exec_driver_sql(f"CREATE TABLE {whole} ({', '.join(lines)})")
