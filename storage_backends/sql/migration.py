"""Creates the schema, or upgrades an older one; refuses that of a newer version."""

import logging
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from odradek.storage_backends.interface import StoreFormatError
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.schema import VERSION

VERSION_TABLE: Final = "odradek_schema"
_SELECT: Final = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant


def upgrade(database: Database) -> None:
    """Upgrade the schema to `VERSION`. Raises StoreFormatError if its version is not supported, StoreError."""
    with database.writing("making the schema") as connection:
        found = _version(connection)
        if found != VERSION:
            _check_known(found, database)
            run_migrations(connection)


def check_version(connection: Connection, database: Database) -> None:
    """Raise StoreFormatError unless the schema has `VERSION`."""
    found = _version(connection)
    if found is None:
        raise StoreFormatError(f"{database.location} is no store of Odradek: there is no table {VERSION_TABLE}")
    _check_known(found, database)
    if found != VERSION:
        raise StoreFormatError(
            f"{database.location} has schema {found}, and this version of odradek reads {VERSION}: a broker of this "
            "version upgrades it when it starts"
        )


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(_SELECT).scalar_one_or_none()


def _check_known(found: str | None, database: Database) -> None:
    if found is not None and found > VERSION:
        raise StoreFormatError(
            f"{database.location} has schema {found}, and this version of odradek knows those up to {VERSION}: upgrade "
            "odradek, or use another database"
        )


def run_migrations(connection: Connection, to: str = "head") -> None:
    """Apply the migrations up to `to`, in the connection's transaction. Raises SQLAlchemy's errors."""
    logging.getLogger("alembic").setLevel(logging.WARNING)  # alembic logs each step, and when it is imported
    # imported here: it takes a tenth of a second, and is needed only for a new or older database
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
