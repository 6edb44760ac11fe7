"""The settings of the metadata log and of the quorum that replicates it."""

from typing import Final

from odradek.coordinator.quorum.values import Timing
from odradek.gateway.config import BrokerConfig
from odradek.gateway.quorum import QuorumSettings
from odradek.partitions.config import LogConfig

METADATA_LEADER_EPOCH: Final = 1
"""The epoch of a log that `odradek recover` makes without a quorum."""
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
FIRST_SERVER: Final = 2
"""The first of `controller.quorum.bootstrap.servers` has the id -2, as in Kafka: -1 means no node."""
METADATA_MAX_BATCH_BYTES: Final = 64 * 1024 * 1024


def metadata_log_config(config: BrokerConfig) -> LogConfig:
    """The settings of the metadata log: it rolls by `metadata.log.segment.…`, and is trimmed after snapshots."""
    return LogConfig(
        max_message_bytes=METADATA_MAX_BATCH_BYTES,
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
    )


def quorum_settings(config: BrokerConfig, machine: str) -> QuorumSettings:
    """The quorum's settings from `controller.quorum.…`; `machine` is this machine's host name."""
    timing = Timing(
        election_ms=_number(config, "controller.quorum.election.timeout.ms"),
        fetch_ms=_number(config, "controller.quorum.fetch.timeout.ms"),
        request_ms=_number(config, "controller.quorum.request.timeout.ms"),
        retry_ms=_number(config, "controller.quorum.retry.backoff.ms"),
    )
    node = config.node
    own = [(each.host, each.port) for each in (*node.controller_listeners, *node.advertised_controller_listeners)]
    founds = node.founds_quorum(machine)
    asked = () if founds else node.bootstrap_servers
    servers = [(number, server) for number, server in enumerate(asked, FIRST_SERVER) if server not in own]
    voters = {voter.node_id: (voter.host, voter.port) for voter in node.voters} or {
        -number: server for number, server in servers
    }
    return QuorumSettings(
        config.node_id,
        voters,
        timing,
        _number(config, "controller.quorum.fetch.max.bytes"),
        _number(config, "controller.quorum.fetch.snapshot.max.bytes"),
        listener=node.controller_listener_names[0] if node.controller_listener_names else "",
        founds=founds,
        joins=node.is_controller and not node.voters and bool(config.values[AUTO_JOIN]),
    )


def _number(config: BrokerConfig, name: str) -> int:
    value = config.values[name]
    assert isinstance(value, int), name
    return value
