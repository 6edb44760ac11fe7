"""The topic settings that a partition's logic uses, under Kafka's names."""

from enum import StrEnum
from typing import Final

from odradek.wire.records.compression import DEFAULT_MAX_RECORDS_BYTES
from odradek.wire.values import immutable

NO_LIMIT: Final = 2**63 - 1
"""Kafka's Long.MAX_VALUE: the default of settings that are unlimited."""


class MessageTimestampType(StrEnum):
    """`message.timestamp.type`: whether records carry the producer's or the broker's time."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CleanupPolicy(StrEnum):
    """One of the policies that `cleanup.policy` lists."""

    DELETE = "delete"
    COMPACT = "compact"


_COMPACT: Final = CleanupPolicy.COMPACT  # Enum member lookup costs as much as a call; used for each batch
_DELETE_ONLY: Final = frozenset({CleanupPolicy.DELETE})


@immutable
class LogConfig:
    """Topic settings with Kafka 4.x's defaults.

    `producer_id_expiration_ms` is the broker's `producer.id.expiration.ms`, `replica_lag_time_max_ms` its
    `replica.lag.time.max.ms`, and `transaction_verification` its `transaction.partition.verification.enable`, which is
    off here unless a broker sets it. `retention_ms` and `retention_bytes` are -1 if unlimited. `max_decompressed_bytes`
    limits the decompressed records of a batch whose records have to be checked
    (`odradek.inspect.max.decompressed.bytes`). `sql_columns` is our `odradek.sql.columns`. For the
    `…_throttled_replicas` see `fetching/throttle.py`.
    """

    max_message_bytes: int = 1048588
    message_timestamp_type: MessageTimestampType = MessageTimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = NO_LIMIT
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    cleanup_policy: frozenset[CleanupPolicy] = _DELETE_ONLY
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LIMIT
    min_cleanable_dirty_ratio: float = 0.5
    flush_messages: int = 1
    flush_ms: int = NO_LIMIT
    min_insync_replicas: int = 1
    leader_replication_throttled_replicas: frozenset[str] = frozenset()
    follower_replication_throttled_replicas: frozenset[str] = frozenset()
    sql_columns: bool = False
    producer_id_expiration_ms: int = 86_400_000
    replica_lag_time_max_ms: int = 30_000
    transaction_verification: bool = False
    max_decompressed_bytes: int = DEFAULT_MAX_RECORDS_BYTES

    @property
    def is_compacted(self) -> bool:
        """True if compaction keeps the latest record of each key, so that every record needs a key."""
        return _COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True if retention deletes old segments, and clients may delete records."""
        return CleanupPolicy.DELETE in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The maximum age of a segment before it is rolled.

        For a compacted topic at most `max.compaction.lag.ms`, since only sealed segments are compacted (KIP-354).
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
