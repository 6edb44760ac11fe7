"""Run by alembic: applies the migrations on the store's connection, in its transaction."""

from alembic import context

from odradek.storage_backends.sql.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table="odradek_schema"
)
with context.begin_transaction():
    context.run_migrations()
