"""A temporary PostgreSQL for an example: started on a free port, and deleted with its data."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.postgres import Postgres, programs


@contextmanager
def postgresql() -> Iterator[str]:
    """Yields SQLAlchemy's URL of an empty database. Exits if PostgreSQL is not installed."""
    found = programs()
    if found is None:
        raise SystemExit("PostgreSQL is missing: run scripts/ensure_postgres.sh")
    server = Postgres(found)
    try:
        server.start()
        yield server.create_database()
    finally:
        server.remove()
