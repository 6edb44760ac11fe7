"""Records as rows, for topics with `odradek.sql.columns`."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and turn off PostgreSQL's compression of batches, whose attempts take half of its time."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE odradek_batches ALTER COLUMN records SET STORAGE EXTERNAL")
    op.add_column("odradek_logs", sa.Column("columns_start", sa.BigInteger, nullable=True))
    op.create_table(
        "odradek_records",
        sa.Column("log_id", sa.BigInteger, nullable=False),
        sa.Column("record_offset", sa.BigInteger, nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger, nullable=False),
        sa.Column("record_key", sa.LargeBinary, nullable=True),
        sa.Column("record_value", sa.LargeBinary, nullable=True),
        sa.Column("headers", sa.Text, nullable=True),
        sa.Column("producer_id", sa.BigInteger, nullable=True),
        sa.Column("has_long_key", sa.Boolean, nullable=False),
    )
    op.create_index("odradek_records_offsets", "odradek_records", ["log_id", "record_offset"], unique=True)
    op.create_index("odradek_records_times", "odradek_records", ["log_id", "timestamp_ms"])
    _partial("odradek_records_keys", ["record_key", "log_id"], "NOT has_long_key")
    _partial("odradek_records_long_keys", ["log_id", "record_offset"], "has_long_key")
    _partial("odradek_records_transactions", ["log_id", "producer_id", "record_offset"], "producer_id IS NOT NULL")
    op.create_table(
        "odradek_markers",
        sa.Column("log_id", sa.BigInteger, nullable=False),
        sa.Column("producer_id", sa.BigInteger, nullable=False),
        sa.Column("marker_offset", sa.BigInteger, nullable=False),
        sa.Column("is_commit", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("log_id", "producer_id", "marker_offset"),
    )


def _partial(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "odradek_records", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
