"""The tables. A change requires a migration in `migrations/versions`; a test compares both."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

VERSION = "0003"
"""The newest migration, the only schema version that this version of the store reads and writes."""

LIVE, STRAY, DRAFT, DEAD = range(4)
"""The kinds of logs: in use, set aside, an unfinished segment, to be deleted."""

METADATA = MetaData()
OUTBOX_METADATA = MetaData()
"""Tables that exist only in PostgreSQL."""

# SQLite assigns numbers to rows only if the key is an INTEGER.
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
    # The offset from which on batches have rows in odradek_records; NULL: none have.
    Column("columns_start", BigInteger, nullable=True),
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
    # Covers all columns of searches, so that they do not read batches.
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

SHORT_KEYS = "NOT has_long_key"
"""The condition of the index on keys: the size of an index entry is limited in PostgreSQL."""
OF_TRANSACTIONS = "producer_id IS NOT NULL"

RECORDS = Table(
    "odradek_records",
    METADATA,
    # Not a foreign key, which would be checked for each record.
    Column("log_id", BigInteger, nullable=False),
    Column("record_offset", BigInteger, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("record_key", LargeBinary, nullable=True),
    Column("record_value", LargeBinary, nullable=True),
    Column("headers", Text, nullable=True),
    # Set for transactional records, which are committed if the producer's next marker is a commit.
    Column("producer_id", BigInteger, nullable=True),
    Column("has_long_key", Boolean, nullable=False),
    Index("odradek_records_offsets", "log_id", "record_offset", unique=True),
    Index("odradek_records_times", "log_id", "timestamp_ms"),
    Index(
        "odradek_records_keys",
        "record_key",
        "log_id",
        sqlite_where=text(SHORT_KEYS),
        postgresql_where=text(SHORT_KEYS),
    ),
    Index(
        "odradek_records_long_keys",
        "log_id",
        "record_offset",
        sqlite_where=text("has_long_key"),
        postgresql_where=text("has_long_key"),
    ),
    Index(
        "odradek_records_transactions",
        "log_id",
        "producer_id",
        "record_offset",
        sqlite_where=text(OF_TRANSACTIONS),
        postgresql_where=text(OF_TRANSACTIONS),
    ),
)

MARKERS = Table(
    "odradek_markers",
    METADATA,
    Column("log_id", BigInteger, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("marker_offset", BigInteger, nullable=False),
    Column("is_commit", Boolean, nullable=False),
    PrimaryKeyConstraint("log_id", "producer_id", "marker_offset"),
)

OUTBOX_TOPICS = Table(
    "odradek_outbox_topics",
    OUTBOX_METADATA,
    Column("topic", String(249), primary_key=True),
    Column("topic_id", Uuid, nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("max_batch_bytes", Integer, nullable=False),
    Column("is_compacted", Boolean, nullable=False),
)

OUTBOX = Table(
    "odradek_outbox",
    OUTBOX_METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("transaction_id", BigInteger, nullable=False),
    Column("topic_id", Uuid, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("topic", String(249), nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("key", LargeBinary, nullable=True),
    Column("value", LargeBinary, nullable=True),
    Column("headers", JSONB, nullable=True),
    Index("odradek_outbox_of_turn", "transaction_id", "topic_id", "partition", "id"),
)

OUTBOX_TURNS = Table(
    "odradek_outbox_turns",
    OUTBOX_METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("transaction_id", BigInteger, nullable=False),
    Column("topic_id", Uuid, nullable=False),
    Column("partition", Integer, nullable=False),
    UniqueConstraint("transaction_id", "topic_id", "partition", name="odradek_outbox_turns_of"),
)

OUTBOX_DEAD = Table(
    "odradek_outbox_dead",
    OUTBOX_METADATA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("topic", String(249), nullable=False),
    Column("topic_id", Uuid, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("key", LargeBinary, nullable=True),
    Column("value", LargeBinary, nullable=True),
    Column("headers", JSONB, nullable=True),
    Column("reason", Text, nullable=False),
    Column("buried_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
