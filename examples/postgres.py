"""A PostgreSQL of one's own for an example: started on a free port, and deleted with all that is in it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.postgres import Postgres, programs


@contextmanager
def postgresql() -> Iterator[str]:
    """SQLAlchemy's URL of an empty database. Ends the program where there is no PostgreSQL."""
    found = programs()
    if found is None:
        raise SystemExit("PostgreSQL is missing: run scripts/ensure_postgres.sh")
    server = Postgres(found)
    try:
        server.start()
        yield server.create_database()
    finally:
        server.remove()
