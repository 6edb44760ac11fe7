"""A topic's config values as plain fields for the code that keeps its logs."""

from collections.abc import Mapping

from odradek.coordinator.configs.definition import ConfigValue
from odradek.wire.values import immutable


@immutable
class LogSettings:
    """The settings of a topic's logs. Names are Kafka's topic configs with underscores; -1 is "no limit".

    `compression_level` is the level for `compression_type`, None if that has no levels. `sql_columns` is our
    `odradek.sql.columns`.
    """

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    retention_ms: int
    max_message_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    file_delete_delay_ms: int
    min_cleanable_dirty_ratio: float
    cleanup_policy: frozenset[str]
    unclean_leader_election_enable: bool
    min_insync_replicas: int
    compression_type: str
    compression_level: int | None
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    sql_columns: bool
    leader_replication_throttled_replicas: frozenset[str]
    follower_replication_throttled_replicas: frozenset[str]


def log_config_from(values: Mapping[str, ConfigValue]) -> LogSettings:
    """Returns the settings from `topic_config_values`; internal.segment.bytes takes precedence over segment.bytes."""
    segment_bytes = values["internal.segment.bytes"]
    compression = _text(values, "compression.type")
    return LogSettings(
        segment_bytes=_int(values, "segment.bytes") if segment_bytes is None else int(str(segment_bytes)),
        segment_ms=_int(values, "segment.ms"),
        segment_jitter_ms=_int(values, "segment.jitter.ms"),
        flush_messages=_int(values, "flush.messages"),
        flush_ms=_int(values, "flush.ms"),
        retention_bytes=max(_int(values, "retention.bytes"), -1),
        retention_ms=_int(values, "retention.ms"),
        max_message_bytes=_int(values, "max.message.bytes"),
        delete_retention_ms=_int(values, "delete.retention.ms"),
        min_compaction_lag_ms=_int(values, "min.compaction.lag.ms"),
        max_compaction_lag_ms=_int(values, "max.compaction.lag.ms"),
        file_delete_delay_ms=_int(values, "file.delete.delay.ms"),
        min_cleanable_dirty_ratio=_float(values, "min.cleanable.dirty.ratio"),
        cleanup_policy=frozenset(_texts(values, "cleanup.policy")),
        unclean_leader_election_enable=values["unclean.leader.election.enable"] is True,
        min_insync_replicas=_int(values, "min.insync.replicas"),
        compression_type=compression,
        compression_level=_int(values, name) if (name := f"compression.{compression}.level") in values else None,
        message_timestamp_type=_text(values, "message.timestamp.type"),
        message_timestamp_before_max_ms=_int(values, "message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=_int(values, "message.timestamp.after.max.ms"),
        sql_columns=values["odradek.sql.columns"] is True,
        leader_replication_throttled_replicas=frozenset(_texts(values, "leader.replication.throttled.replicas")),
        follower_replication_throttled_replicas=frozenset(_texts(values, "follower.replication.throttled.replicas")),
    )


def _int(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value


def _float(values: Mapping[str, ConfigValue], name: str) -> float:
    value = values[name]
    assert isinstance(value, float), name
    return value


def _text(values: Mapping[str, ConfigValue], name: str) -> str:
    value = values[name]
    assert isinstance(value, str), name
    return value


def _texts(values: Mapping[str, ConfigValue], name: str) -> tuple[str, ...]:
    value = values[name]
    assert isinstance(value, tuple), name
    return value
