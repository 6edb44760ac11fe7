"""The flights in SQL: a topic in SQLite that is aggregated with SQL, and a PostgreSQL whose transactions append."""
