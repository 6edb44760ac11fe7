"""The broker's settings as typed values."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Self

from odradek.coordinator.configs.definition import ConfigValue
from odradek.coordinator.configs.layers import BrokerLayers
from odradek.coordinator.configs.limits import MOST_CLEANER_THREADS
from odradek.coordinator.configs.tables import QUOTA_CONFIGS
from odradek.coordinator.groups.config import ConsumerGroupConfig, GroupConfig
from odradek.coordinator.groups.consumer.assignor_names import ASSIGNOR_NAMES, KAFKAS_ASSIGNORS
from odradek.coordinator.transactions.config import TransactionConfig
from odradek.gateway.config.errors import ConfigError
from odradek.gateway.config.listeners import Endpoint
from odradek.gateway.config.nodes import NodeConfig, node_of
from odradek.gateway.config.releases import Release, release_of
from odradek.gateway.config.rules import check_rules
from odradek.gateway.config.texts import optional, texts
from odradek.gateway.data_urls import url_of_directory
from odradek.wire.values import immutable


@immutable
class BrokerConfig:
    """The settings that the gateway uses. Field names are Kafka's (or `odradek.…`) with underscores and the unit last.

    `layers` holds every setting as text, for DescribeConfigs; `node` is the node's role in the cluster.
    """

    layers: BrokerLayers
    node: NodeConfig
    node_id: int
    rack: str | None
    storage_url: str
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    auto_create_topics_enable: bool
    connections_max_idle_ms: int
    fetch_max_bytes: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    queued_max_request_bytes: int
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    socket_request_max_bytes: int
    commit_threads: int
    commit_max_bytes: int
    offsets_commit_timeout_ms: int
    commit_max_pending_bytes: int
    log_retry_backoff_ms: int
    log_retry_backoff_max_ms: int
    connection_max_in_flight_requests: int
    connection_write_timeout_ms: int
    drain_timeout_ms: int
    import_far_enable: bool
    inspect_max_decompressed_bytes: int
    inspect_threads: int
    log_idle_close_ms: int
    log_max_open_files: int
    loop_stall_warn_ms: int
    metrics_listen: str | None
    outbox_poll_interval_ms: int
    regex_threads: int
    partitions_max: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    num_replica_fetchers: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_timeout_ms: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    transaction_partition_verification_enable: bool
    group: GroupConfig
    transaction: TransactionConfig
    release: Release | None

    @classmethod
    def of(cls, layers: BrokerLayers) -> Self:
        """Check and convert the settings. Raises ConfigError."""
        check_rules(layers)
        node = node_of(layers, _int(layers, "node.id"))
        return cls(
            layers=layers,
            node=node,
            node_id=node.node_id,
            release=release_of(layers, is_alone=node.is_alone),
            rack=optional(layers, "broker.rack"),
            storage_url=storage_url_of(layers),
            listeners=node.listeners,
            advertised_listeners=node.advertised_listeners,
            max_connections_per_ip_overrides=_per_ip(layers),
            group=_group(layers),
            transaction=_transaction(layers),
            **_typed(layers),
            **_throttled_rates(layers),
        )

    @property
    def values(self) -> Mapping[str, ConfigValue]:
        """The value of every setting, by Kafka's name (or `odradek.…`)."""
        return self.layers.values

    @property
    def cleaner_threads(self) -> int:
        """The number of logs cleaned at a time; a stored `log.cleaner.threads` may be above its limit."""
        return min(self.log_cleaner_threads, MOST_CLEANER_THREADS)

    def with_dynamic(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> Self:
        """A copy with settings that were changed at run time; settings that cannot change at run time are kept."""
        layers = BrokerLayers(self.layers.static, dynamic_default, dynamic_broker)
        return replace(
            self,
            layers=layers,
            max_connections_per_ip_overrides=_per_ip(layers),
            group=_group(layers),
            **_typed(layers),
            **_throttled_rates(layers),
        )


SIMPLE_SETTINGS: Final = {
    "auto_create_topics_enable": "auto.create.topics.enable",
    "connections_max_idle_ms": "connections.max.idle.ms",
    "fetch_max_bytes": "fetch.max.bytes",
    "max_connection_creation_rate": "max.connection.creation.rate",
    "max_connections": "max.connections",
    "max_connections_per_ip": "max.connections.per.ip",
    "max_incremental_fetch_session_cache_slots": "max.incremental.fetch.session.cache.slots",
    "max_request_partition_size_limit": "max.request.partition.size.limit",
    "producer_id_expiration_ms": "producer.id.expiration.ms",
    "producer_id_expiration_check_interval_ms": "producer.id.expiration.check.interval.ms",
    "metadata_log_segment_bytes": "metadata.log.segment.bytes",
    "metadata_log_segment_ms": "metadata.log.segment.ms",
    "queued_max_request_bytes": "queued.max.request.bytes",
    "request_timeout_ms": "request.timeout.ms",
    "socket_connection_setup_timeout_ms": "socket.connection.setup.timeout.ms",
    "socket_request_max_bytes": "socket.request.max.bytes",
    "commit_threads": "odradek.commit.threads",
    "commit_max_bytes": "odradek.commit.max.bytes",
    "offsets_commit_timeout_ms": "offsets.commit.timeout.ms",
    "commit_max_pending_bytes": "odradek.commit.max.pending.bytes",
    "log_retry_backoff_ms": "odradek.log.retry.backoff.ms",
    "log_retry_backoff_max_ms": "odradek.log.retry.backoff.max.ms",
    "connection_max_in_flight_requests": "odradek.connection.max.in.flight.requests",
    "connection_write_timeout_ms": "odradek.connection.write.timeout.ms",
    "drain_timeout_ms": "odradek.drain.timeout.ms",
    "import_far_enable": "odradek.import.far.enable",
    "inspect_max_decompressed_bytes": "odradek.inspect.max.decompressed.bytes",
    "inspect_threads": "odradek.inspect.threads",
    "log_idle_close_ms": "odradek.log.idle.close.ms",
    "log_max_open_files": "odradek.log.max.open.files",
    "loop_stall_warn_ms": "odradek.loop.stall.warn.ms",
    "metrics_listen": "odradek.metrics.listen",
    "outbox_poll_interval_ms": "odradek.outbox.poll.interval.ms",
    "regex_threads": "odradek.regex.threads",
    "partitions_max": "odradek.partitions.max",
    "log_cleaner_backoff_ms": "log.cleaner.backoff.ms",
    "log_cleaner_dedupe_buffer_size": "log.cleaner.dedupe.buffer.size",
    "log_cleaner_enable": "log.cleaner.enable",
    "log_cleaner_io_buffer_load_factor": "log.cleaner.io.buffer.load.factor",
    "log_cleaner_io_buffer_size": "log.cleaner.io.buffer.size",
    "log_cleaner_io_max_bytes_per_second": "log.cleaner.io.max.bytes.per.second",
    "log_cleaner_threads": "log.cleaner.threads",
    "log_initial_task_delay_ms": "log.initial.task.delay.ms",
    "log_retention_check_interval_ms": "log.retention.check.interval.ms",
    "num_replica_fetchers": "num.replica.fetchers",
    "replica_fetch_backoff_ms": "replica.fetch.backoff.ms",
    "replica_fetch_max_bytes": "replica.fetch.max.bytes",
    "replica_fetch_min_bytes": "replica.fetch.min.bytes",
    "replica_fetch_response_max_bytes": "replica.fetch.response.max.bytes",
    "replica_fetch_wait_max_ms": "replica.fetch.wait.max.ms",
    "replica_lag_time_max_ms": "replica.lag.time.max.ms",
    "replica_selector_class": "replica.selector.class",
    "replica_socket_timeout_ms": "replica.socket.timeout.ms",
    "replication_quota_window_num": "replication.quota.window.num",
    "replication_quota_window_size_seconds": "replication.quota.window.size.seconds",
    "transaction_partition_verification_enable": "transaction.partition.verification.enable",
}
"""Fields that hold a setting's value unchanged."""


def _typed(layers: BrokerLayers) -> dict[str, Any]:
    return {field: layers.values[name] for field, name in SIMPLE_SETTINGS.items()}


def _throttled_rates(layers: BrokerLayers) -> dict[str, Any]:
    """Replication quotas in bytes per second; they are set only at run time, for one broker or for all."""
    rates: dict[str, Any] = {}
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        text = layers.dynamic_broker.get(name, layers.dynamic_default.get(name))
        definition = QUOTA_CONFIGS[name]
        rates[name.replace(".", "_")] = definition.parse_default() if text is None else definition.parse(text)
    return rates


def _int(layers: BrokerLayers, name: str) -> int:
    value = layers.values[name]
    assert isinstance(value, int), name
    return value


STORAGE_SETTINGS: Final = ("odradek.storage", "log.dirs", "log.dir")
"""The settings that say where a broker's data are; the first that is set decides."""


def storage_url_of(layers: BrokerLayers) -> str:
    """The URL of a broker's data, of `STORAGE_SETTINGS` and their defaults. Raises ConfigError."""
    url = optional(layers, "odradek.storage")
    if url is not None:
        return url
    first, *others = texts(layers, "log.dirs") or texts(layers, "log.dir")
    if others:
        raise ConfigError(
            f"log.dirs names {1 + len(others)} directories; this version keeps its data in one", "log.dirs"
        )
    return url_of_directory(Path(first).absolute())


def _per_ip(layers: BrokerLayers) -> Mapping[str, int]:
    overrides: dict[str, int] = {}
    for entry in texts(layers, "max.connections.per.ip.overrides"):
        host, _, count = entry.rpartition(":")
        overrides[host.strip()] = int(count)
    return overrides


def _group(layers: BrokerLayers) -> GroupConfig:
    names = [field.name for field in fields(GroupConfig) if field.name != "consumer"]
    typed = {name: _int(layers, name.replace("_", ".")) for name in names}
    return GroupConfig(**typed, consumer=_consumer_group(layers))


def _consumer_group(layers: BrokerLayers) -> ConsumerGroupConfig:
    """Check the configured assignors; Kafka's class names are accepted for ours."""
    names = [field.name for field in fields(ConsumerGroupConfig)]
    values: dict[str, Any] = {name: layers.values[name.replace("_", ".")] for name in names}
    asked = [KAFKAS_ASSIGNORS.get(name, name) for name in texts(layers, "group.consumer.assignors")]
    unknown = [name for name in asked if name not in ASSIGNOR_NAMES]
    if unknown:
        raise ConfigError(
            f"group.consumer.assignors names {unknown[0]}; there are {', '.join(ASSIGNOR_NAMES)}",
            "group.consumer.assignors",
        )
    values["group_consumer_assignors"] = tuple(dict.fromkeys(asked))
    values["group_coordinator_rebalance_protocols"] = texts(layers, "group.coordinator.rebalance.protocols")
    return ConsumerGroupConfig(**values)


def _transaction(layers: BrokerLayers) -> TransactionConfig:
    names = [field.name for field in fields(TransactionConfig)]
    return TransactionConfig(**{name: _int(layers, name.replace("_", ".")) for name in names})
