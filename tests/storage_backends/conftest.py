"""A real PostgreSQL for the tests of stores."""

from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]
