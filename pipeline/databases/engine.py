"""Opens databases, and maps their errors."""

import importlib.util
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.errors import MissingError, PipelineError
from odradek.storage_backends.urls import masked_url as shown

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

NEEDED: Final = "pip install 'odradek[sql]'"
JDBC: Final = "jdbc:"
BUSY_TIMEOUT_S: Final = 60
_ABOUT_DATA: Final = ("22", "23", "44", "P0")
"""SQLSTATE classes of errors about a row's data: data, constraints, views' checks, triggers."""
_RAISED: Final = re.compile(r"odradek\.pipeline\.(?:errors|databases\.\w+)\.(\w*Error): (.*)")


def is_jdbc(url: str) -> bool:
    """Return True if the URL is for Spark's JDBC source instead of SQLAlchemy."""
    return url.startswith(JDBC)


def open_engine(url: str, *, exists: bool = False) -> "Engine":
    """Return an engine that keeps no connection open between uses. Dispose of it when done.

    A transaction on SQLite takes the write lock when it begins, and waits `BUSY_TIMEOUT_S` for it, unless the
    connection has the execution option `reading`. With `exists` a missing SQLite file is refused instead of created.
    Raises PipelineError for an invalid database URL, MissingError if SQLAlchemy or the database's driver is not
    installed.
    """
    if importlib.util.find_spec("sqlalchemy") is None:
        raise MissingError(f"databases are reached through SQLAlchemy: {NEEDED}")
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError
    from sqlalchemy.pool import NullPool

    address = _parsed(url)
    sqlite = address.get_backend_name() == "sqlite"
    if sqlite:
        _check_file(address, exists=exists)
    try:
        engine = create_engine(address, poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_S} if sqlite else {})
    except NoSuchModuleError as error:
        raise PipelineError(f"{shown(url)}: SQLAlchemy knows no such database: {error}") from error
    except ModuleNotFoundError as error:
        advice = NEEDED if error.name and error.name.startswith("psycopg") else f"pip install {error.name}"
        raise MissingError(f"{shown(url)}: its driver is not installed: {advice}") from error
    if sqlite:
        _own_transactions(engine)
    return engine


def _parsed(url: str) -> "URL":
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:
        raise PipelineError(
            f"{shown(url)!r} is no database's URL, such as sqlite:///shop.db, postgresql+psycopg://user@host/shop or "
            "jdbc:…"
        ) from error


def _check_file(address: "URL", *, exists: bool) -> None:
    name = address.database
    if not name or name == ":memory:":
        raise PipelineError("a SQLite database in memory is seen by one process only: name a file, sqlite:///shop.db")
    if exists and not name.startswith("file:") and not Path(name).is_file():
        raise PipelineError(f"there is no SQLite database {name}")


def _own_transactions(engine: "Engine") -> None:
    """Begin transactions with our own BEGIN: sqlite3 begins one only before the first write, so that reads are not part
    of it. IMMEDIATE takes the write lock first: a transaction that has read may be refused it if another one writes.
    """
    from sqlalchemy import event

    def connected(connection: Any, _record: object) -> None:  # noqa: ANN401 - a sqlite3 connection
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys=ON")

    def begun(connection: "Connection") -> None:
        connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get("reading") else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


class TransientError(PipelineError):
    """A database or a Kafka cannot be reached now; a retry may succeed."""


@contextmanager
def database_errors(url: str) -> Generator[None]:
    """Map the database's errors in the block to PipelineError; operational and interface errors, such as a lost
    connection, to TransientError.
    """
    from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise TransientError(f"{shown(url)}: {text_of(error)}") from error
    except SQLAlchemyError as error:
        raise PipelineError(f"{shown(url)}: {text_of(error)}") from error


def text_of(error: BaseException) -> str:
    """Return the database's message in one line, without the statement and its values."""
    said = getattr(error, "orig", None) or error
    return " ".join(str(said).split()) or type(said).__name__


def is_about_data(error: Exception) -> bool:
    """Return True if an error is about the data of a row (a constraint, a type, a range), not about the database."""
    from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

    if isinstance(error, IntegrityError | DataError | OverflowError):
        return True
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return isinstance(error, DBAPIError) and isinstance(state, str) and state.startswith(_ABOUT_DATA)


@contextmanager
def spark_errors() -> Generator[None]:
    """Map Spark's errors in the block.

    A PipelineError of a task is raised again with its message: as TransientError if it was one, else as PipelineError.
    Any other error of Spark becomes a TransientError with its first line.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        for name, said in _RAISED.findall(str(error))[-1:]:
            raise (TransientError if name == TransientError.__name__ else PipelineError)(said) from error
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise TransientError(f"Spark: {lines[0] if lines else type(error).__name__}") from error
