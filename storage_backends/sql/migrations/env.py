"""Run by alembic: applies the steps over the connection that the store hands in, in its transaction."""

from alembic import context

from odradek.storage_backends.sql.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table="odradek_schema"
)
with context.begin_transaction():
    context.run_migrations()
