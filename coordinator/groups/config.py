"""The settings of the group coordinator: Kafka's names (dots become underscores) and Kafka's defaults."""

from dataclasses import field

from odradek.wire.values import immutable

MS_PER_MINUTE = 60_000


@immutable
class ConsumerGroupConfig:
    """The broker configs for the consumer protocol.

    Those with a minimum and a maximum may be set per group (`consumer.session.timeout.ms` and so on).
    """

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")

    @property
    def enabled(self) -> bool:
        """True if the coordinator serves the consumer protocol."""
        return "consumer" in self.group_coordinator_rebalance_protocols

    @property
    def mixes_protocols(self) -> bool:
        """True if a consumer group with members accepts members of the classic protocol."""
        return self.group_consumer_migration_policy.lower() != "disabled"

    @property
    def upgrades(self) -> bool:
        """True if a classic group with members may become a consumer group."""
        return self.group_consumer_migration_policy.lower() in {"upgrade", "bidirectional"}

    @property
    def downgrades(self) -> bool:
        """True if a consumer group with members may become a classic group."""
        return self.group_consumer_migration_policy.lower() in {"downgrade", "bidirectional"}


@immutable
class GroupConfig:
    """The broker configs that the group coordinator reads."""

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
        """How long an offset is kept after its last use, in milliseconds."""
        return self.offsets_retention_minutes * MS_PER_MINUTE
