"""The settings in force: those that the broker was started with, and changes at run time."""

import logging
from collections.abc import Mapping
from typing import Final

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.configs.errors import ConfigRefusedError
from odradek.coordinator.configs.layers import BrokerLayers, topic_config_values
from odradek.coordinator.configs.log_settings import log_config_from
from odradek.coordinator.metadata.controller.replication_settings import MIN_INSYNC_REPLICAS
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import BrokerConfig, ConfigError
from odradek.partitions.config import CleanupPolicy, LogConfig, MessageTimestampType

log = logging.getLogger(__name__)

ALL_BROKERS: Final = ""
"""The resource name of the settings that apply to all brokers."""
MAX_LOG_CONFIGS: Final = 1000
"""The maximum number of different topic settings that are cached, outdated ones included."""


class LiveSettings:
    """The broker's and its topics' settings, as of the newest published image."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._log_configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._min_insync: str | None = None

    def on_published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed broker settings; none of them if one is invalid, as another version may have written."""
        if delta.changed_configs(ResourceType.BROKER):
            default = image.configs_of(ResourceType.BROKER, ALL_BROKERS)
            own = image.configs_of(ResourceType.BROKER, str(self.config.node_id))
            try:
                self.config = self.config.with_dynamic(default, own)
            except (ConfigError, ConfigRefusedError) as error:
                log.error("the changed broker settings are not applied, since one is invalid cause=%s", error)  # noqa: TRY400
            self._log_configs.clear()
            self._compare_min_insync(default)

    def _compare_min_insync(self, default: Mapping[str, str]) -> None:
        """Log once that this node's own setting has no effect; see `controller/replication_settings.py`."""
        own, used = self.config.layers.static.get(MIN_INSYNC_REPLICAS), default.get(MIN_INSYNC_REPLICAS)
        if own not in (None, used) and used is not None and used != self._min_insync:
            text = "the cluster's min.insync.replicas=%s is used, not this node's own %s; to change it: %s"
            command = f"odradek configs alter broker default --set {MIN_INSYNC_REPLICAS}={own}"
            log.warning(text, used, own, command)
        self._min_insync = used

    def changed_topics(self, delta: MetadataDelta, image: MetadataImage) -> list[str]:
        """The existing topics whose settings changed; all existing topics if a broker setting changed."""
        if delta.changed_configs(ResourceType.BROKER):
            return [name for name in image.topics_by_name if name in delta.before.topics_by_name]
        changed = delta.changed_configs(ResourceType.TOPIC)
        return [name for name in changed if name in image.topics_by_name and name in delta.before.topics_by_name]

    def layers(self) -> BrokerLayers:
        """Every broker setting as text, by layer."""
        return self.config.layers

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        """The settings of the logs of `topic`. Topics with the same settings share one value.

        So a thousand logs do not read their settings from a thousand memory locations, and a new image is quickly
        applied to all of them.
        """
        overrides = image.configs_of(ResourceType.TOPIC, topic)
        key = tuple(overrides.items())
        found = self._log_configs.get(key)
        if found is None:
            if len(self._log_configs) >= MAX_LOG_CONFIGS:
                self._log_configs.clear()
            found = self._log_configs[key] = self._log_config(overrides)
        return found

    def _log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        settings = log_config_from(topic_config_values(overrides, self.config.layers))
        return LogConfig(
            max_message_bytes=settings.max_message_bytes,
            message_timestamp_type=MessageTimestampType(settings.message_timestamp_type),
            message_timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
            message_timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
            compression_type=settings.compression_type,
            cleanup_policy=frozenset(CleanupPolicy(policy) for policy in settings.cleanup_policy),
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
            segment_bytes=settings.segment_bytes,
            segment_ms=settings.segment_ms,
            delete_retention_ms=settings.delete_retention_ms,
            min_compaction_lag_ms=settings.min_compaction_lag_ms,
            max_compaction_lag_ms=settings.max_compaction_lag_ms,
            min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
            flush_messages=settings.flush_messages,
            flush_ms=settings.flush_ms,
            min_insync_replicas=settings.min_insync_replicas,
            sql_columns=settings.sql_columns,
            leader_replication_throttled_replicas=settings.leader_replication_throttled_replicas,
            follower_replication_throttled_replicas=settings.follower_replication_throttled_replicas,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            replica_lag_time_max_ms=self.config.replica_lag_time_max_ms,
            transaction_verification=self.config.transaction_partition_verification_enable,
            max_decompressed_bytes=self.config.inspect_max_decompressed_bytes,
        )
