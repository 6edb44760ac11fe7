"""The steps by which a schema is made and upgraded, applied by alembic when a store is opened."""
