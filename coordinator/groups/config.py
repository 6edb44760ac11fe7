"""What an operator can set about groups: Kafka's names, Kafka's defaults."""

from dataclasses import field

from odradek.coordinator.groups.consumer.config import ConsumerGroupConfig
from odradek.wire.values import immutable

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member's JoinGroup may wait. It cannot heartbeat yet, and Kafka has no setting for it either."""

MS_PER_MINUTE = 60_000


@immutable
class GroupConfig:
    """The broker configs that the group coordinator reads (dots become underscores)."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)

    @property
    def offsets_retention_ms(self) -> int:
        """How long offsets outlive their last use, in milliseconds."""
        return self.offsets_retention_minutes * MS_PER_MINUTE
