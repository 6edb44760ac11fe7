"""The tables. Changes come as a migration in `migrations/versions`, and a test compares both."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
)

VERSION = "0001"
"""The newest migration, which this version of the store reads and writes."""

METADATA = MetaData()

# SQLite numbers rows by itself only where the key is an INTEGER.
_RowId = BigInteger().with_variant(Integer, "sqlite")

OWNER = Table(
    "odradek_owner",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
)

PROPERTIES = Table(
    "odradek_properties",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

LOGS = Table(
    "odradek_logs",
    METADATA,
    Column("id", _RowId, primary_key=True),
    Column("kind", SmallInteger, nullable=False),
    Column("name", Text, nullable=True, unique=True),
    Column("topic", String(249), nullable=False),
    Column("topic_id", String(36), nullable=False),
    Column("partition", Integer, nullable=False),
    Column("log_start_offset", BigInteger, nullable=False),
    Column("log_end_offset", BigInteger, nullable=False),
    Column("clean_offset", BigInteger, nullable=False),
    Index("odradek_logs_partition", "topic", "topic_id", "partition"),
)

BATCHES = Table(
    "odradek_batches",
    METADATA,
    Column("log_id", BigInteger, ForeignKey("odradek_logs.id"), nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("base_offset", BigInteger, nullable=False),
    Column("max_timestamp_ms", BigInteger, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("records", LargeBinary, nullable=False),
    # All that searches need, so that none of them reads a batch.
    Index(
        "odradek_batches_offsets",
        "log_id",
        "last_offset",
        "base_offset",
        "max_timestamp_ms",
        "size_bytes",
        unique=True,
    ),
)

SEGMENTS = Table(
    "odradek_segments",
    METADATA,
    Column("log_id", BigInteger, ForeignKey("odradek_logs.id"), nullable=False),
    Column("base_offset", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("first_timestamp_ms", BigInteger, nullable=False),
    Column("max_timestamp_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("log_id", "base_offset"),
)

EPOCHS = Table(
    "odradek_epochs",
    METADATA,
    Column("log_id", BigInteger, ForeignKey("odradek_logs.id"), nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("start_offset", BigInteger, nullable=False),
    PrimaryKeyConstraint("log_id", "leader_epoch"),
)

PRODUCERS = Table(
    "odradek_producers",
    METADATA,
    Column("log_id", BigInteger, ForeignKey("odradek_logs.id"), nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("end_offset", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("log_id", "producer_id"),
)

ABORTED = Table(
    "odradek_aborted",
    METADATA,
    Column("id", _RowId, primary_key=True),
    Column("log_id", BigInteger, ForeignKey("odradek_logs.id"), nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("first_offset", BigInteger, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("last_stable_offset", BigInteger, nullable=False),
    Index("odradek_aborted_offsets", "log_id", "last_offset"),
)
