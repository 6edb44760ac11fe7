"""The migrations that create and upgrade the schema, applied by alembic when a store is opened."""
