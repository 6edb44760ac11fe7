"""Checks that settings are consistent with each other; rules and messages are Kafka's if Kafka has them."""

from typing import Final

from odradek.coordinator.configs.layers import BrokerLayers
from odradek.gateway.config.errors import ConfigError
from odradek.partitions.fetching.selection import LEADER_ONLY, RACK_AWARE

_NOT_ABOVE: Final = (
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),  # or fetches without new records time out
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),  # or followers leave the ISR while there is no new record
)
"""Pairs of settings; the first must not be greater than the second."""

_POSITIVE: Final = (
    "log.roll.ms",
    "default.replication.factor",
    "socket.receive.buffer.bytes",
    "broker.heartbeat.interval.ms",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms",
)
"""Settings that are at least 1; Kafka allows 0 for times with which the event loop here would never pause."""
_BETWEEN: Final = (
    (
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    (
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
)
"""Settings, each with the settings of its lowest and of its highest value."""
_RETENTIONS: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")


def check_rules(layers: BrokerLayers) -> None:
    """Raise ConfigError for settings that contradict each other or with which no broker can run."""
    _check_id(layers)
    for low, high in _NOT_ABOVE:
        if _number(layers, low, 0) > _number(layers, high, 0):
            raise ConfigError(
                f"{low} ({layers.values[low]}) must not be greater than {high} ({layers.values[high]})", low
            )
    _check_between(layers)
    for name in _RETENTIONS:
        if _number(layers, name, 1) == 0 or _number(layers, name, 1) < -1:
            raise ConfigError(f"{name} must be unlimited (-1) or, equal or greater than 1", name)
    for name in _POSITIVE:
        value = _number(layers, name, 1)
        if value < 1 and not (name.endswith("buffer.bytes") and value == -1):
            raise ConfigError(f"{name} must be equal or greater than 1", name)
    _check_connections(layers)
    if (selector := layers.values["replica.selector.class"]) and selector not in (RACK_AWARE, LEADER_ONLY):
        known = f"{RACK_AWARE} and {LEADER_ONLY}"
        raise ConfigError(
            f"replica.selector.class: {selector} is not available, only {known}", "replica.selector.class"
        )
    metrics = layers.values["odradek.metrics.listen"]
    if metrics is not None and host_and_port(str(metrics)) is None:
        raise ConfigError(f"odradek.metrics.listen: {metrics!r} is not HOST:PORT", "odradek.metrics.listen")
    if 0 < _number(layers, "queued.max.request.bytes", -1) < _number(layers, "socket.request.max.bytes", 0):
        raise ConfigError(
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes", "queued.max.request.bytes"
        )


def _check_between(layers: BrokerLayers) -> None:
    for name, low, high in _BETWEEN:
        value = _number(layers, name, 0)
        if value < _number(layers, low, 0):
            raise ConfigError(f"{name} must be greater than or equal to {low}", name)
        if value > _number(layers, high, value):
            raise ConfigError(f"{name} must be less than or equal to {high}", name)


def host_and_port(text: str) -> tuple[str, int] | None:
    """`HOST:PORT` as a pair, None for anything else; port 0 means any free port. An IPv6 address may be in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    return (host, int(port)) if colon and host and port.isdecimal() and int(port) < 65536 else None


def _number(layers: BrokerLayers, name: str, default: int) -> int:
    value = layers.values[name]
    return value if isinstance(value, int) else default


def _check_id(layers: BrokerLayers) -> None:
    if layers.values["node.id"] != layers.values["broker.id"] != -1:
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.", "broker.id")


def _check_connections(layers: BrokerLayers) -> None:
    if layers.values["max.connections.per.ip"] == 0 and not layers.values["max.connections.per.ip.overrides"]:
        raise ConfigError(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
            "max.connections.per.ip",
        )
