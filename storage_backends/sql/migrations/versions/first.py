"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _log_id() -> "sa.Column[int]":
    return sa.Column("log_id", sa.BigInteger, sa.ForeignKey("odradek_logs.id"), nullable=False)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "odradek_owner",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "odradek_properties",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "odradek_logs",
        sa.Column("id", _ROW_ID, primary_key=True),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=True, unique=True),
        sa.Column("topic", sa.String(249), nullable=False),
        sa.Column("topic_id", sa.String(36), nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("log_start_offset", sa.BigInteger, nullable=False),
        sa.Column("log_end_offset", sa.BigInteger, nullable=False),
        sa.Column("clean_offset", sa.BigInteger, nullable=False),
    )
    op.create_index("odradek_logs_partition", "odradek_logs", ["topic", "topic_id", "partition"])
    op.create_table(
        "odradek_batches",
        _log_id(),
        sa.Column("last_offset", sa.BigInteger, nullable=False),
        sa.Column("base_offset", sa.BigInteger, nullable=False),
        sa.Column("max_timestamp_ms", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("records", sa.LargeBinary, nullable=False),
    )
    searched = ["log_id", "last_offset", "base_offset", "max_timestamp_ms", "size_bytes"]
    op.create_index("odradek_batches_offsets", "odradek_batches", searched, unique=True)
    _tables_of_state()


def _tables_of_state() -> None:
    op.create_table(
        "odradek_segments",
        _log_id(),
        sa.Column("base_offset", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("first_timestamp_ms", sa.BigInteger, nullable=False),
        sa.Column("max_timestamp_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("log_id", "base_offset"),
    )
    op.create_table(
        "odradek_epochs",
        _log_id(),
        sa.Column("leader_epoch", sa.Integer, nullable=False),
        sa.Column("start_offset", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("log_id", "leader_epoch"),
    )
    op.create_table(
        "odradek_producers",
        _log_id(),
        sa.Column("producer_id", sa.BigInteger, nullable=False),
        sa.Column("end_offset", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("log_id", "producer_id"),
    )
    op.create_table(
        "odradek_aborted",
        sa.Column("id", _ROW_ID, primary_key=True),
        _log_id(),
        sa.Column("producer_id", sa.BigInteger, nullable=False),
        sa.Column("first_offset", sa.BigInteger, nullable=False),
        sa.Column("last_offset", sa.BigInteger, nullable=False),
        sa.Column("last_stable_offset", sa.BigInteger, nullable=False),
    )
    op.create_index("odradek_aborted_offsets", "odradek_aborted", ["log_id", "last_offset"])
