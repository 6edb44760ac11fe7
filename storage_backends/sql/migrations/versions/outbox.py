"""The outbox, only in PostgreSQL: its tables, and the functions that write to them in a schema for users."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from odradek.storage_backends.sql.outbox.functions import api_schema, quoted, statements

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, the schema and the functions."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    _tables()
    op.execute("CREATE SEQUENCE odradek_outbox_turn")
    store = connection.execute(sa.text("SELECT current_schema()")).scalar_one()
    if (
        connection.execute(sa.text("SELECT to_regnamespace(:name)"), {"name": quoted(api_schema(store))}).scalar()
        is None
    ):
        op.execute(f"CREATE SCHEMA {quoted(api_schema(store))}")
    for statement in statements(store):
        connection.exec_driver_sql(statement.replace("%", "%%"))


def _tables() -> None:
    op.create_table(
        "odradek_outbox_topics",
        sa.Column("topic", sa.String(249), primary_key=True),
        sa.Column("topic_id", sa.Uuid, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("max_batch_bytes", sa.Integer, nullable=False),
        sa.Column("is_compacted", sa.Boolean, nullable=False),
    )
    op.create_table(
        "odradek_outbox",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("transaction_id", sa.BigInteger, nullable=False),
        *_columns_of_record(),
        sa.Column("size_bytes", sa.Integer, nullable=False),
    )
    of_turn = ["transaction_id", "topic_id", "partition", "id"]
    op.create_index("odradek_outbox_of_turn", "odradek_outbox", of_turn)
    op.create_table(
        "odradek_outbox_turns",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("transaction_id", sa.BigInteger, nullable=False),
        sa.Column("topic_id", sa.Uuid, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.UniqueConstraint("transaction_id", "topic_id", "partition", name="odradek_outbox_turns_of"),
    )
    op.create_table(
        "odradek_outbox_dead",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        *_columns_of_record(),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("buried_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )


def _columns_of_record() -> "list[sa.Column[object]]":
    return [
        sa.Column("topic", sa.String(249), nullable=False),
        sa.Column("topic_id", sa.Uuid, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=True),
        sa.Column("value", sa.LargeBinary, nullable=True),
        sa.Column("headers", JSONB, nullable=True),
    ]
