"""What an operator can set about consumer groups: Kafka's names, Kafka's defaults."""

from odradek.wire.values import immutable

REGEX_REFRESH_MIN_INTERVAL_MS = 10_000
"""How soon a group's regular expressions may be resolved again; no setting in Kafka either."""


@immutable
class ConsumerGroupConfig:
    """The broker configs that concern the consumer protocol (dots become underscores).

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
        """Whether the coordinator serves the consumer protocol at all."""
        return "consumer" in self.group_coordinator_rebalance_protocols

    @property
    def mixes_protocols(self) -> bool:
        """Whether a live consumer group takes classic members in."""
        return self.group_consumer_migration_policy.lower() != "disabled"

    @property
    def upgrades(self) -> bool:
        """Whether a live classic group may become a consumer group."""
        return self.group_consumer_migration_policy.lower() in {"upgrade", "bidirectional"}

    @property
    def downgrades(self) -> bool:
        """Whether a live consumer group may become a classic group."""
        return self.group_consumer_migration_policy.lower() in {"downgrade", "bidirectional"}
