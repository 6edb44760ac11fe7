"""`listeners`, `advertised.listeners` and `listener.security.protocol.map`, with Kafka's rules."""

import re
from itertools import combinations
from typing import Final

from odradek.gateway.config.errors import ConfigError
from odradek.wire.values import immutable

_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:.%]+\]|[^:/\[\]]*):(-?[0-9]+)")
MAX_PORT: Final = 65535
SUPPORTED_PROTOCOLS: Final = frozenset({"PLAINTEXT"})
"""TLS and SASL are not implemented."""


@immutable
class Endpoint:
    """One listener's name, host (empty: all interfaces) and port (0: any free one)."""

    name: str
    host: str
    port: int


def parse_endpoints(setting: str, texts: tuple[str, ...]) -> tuple[Endpoint, ...]:
    """Parse `NAME://HOST:PORT`, … . Raises ConfigError."""
    endpoints = tuple(_endpoint(setting, text) for text in texts)
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise ConfigError(f"{setting} names a listener twice: {','.join(texts)}", setting)
    return endpoints


def _endpoint(setting: str, text: str) -> Endpoint:
    matched = _ENDPOINT.fullmatch(text)
    if matched is None:
        raise ConfigError(
            f"{setting}: {text!r} is not of the form NAME://HOST:PORT, as PLAINTEXT://127.0.0.1:9092", setting
        )
    port = int(matched[3])
    if not 0 <= port <= MAX_PORT:
        raise ConfigError(f"{setting}: port {port} of {text!r} is not between 0 and {MAX_PORT}", setting)
    return Endpoint(matched[1].upper(), matched[2].strip("[]"), port)


def check_ports(endpoints: tuple[Endpoint, ...]) -> None:
    """Check that no two listeners share a port, except one IPv4 and one IPv6 (KIP-797). Raises ConfigError."""
    for first, second in combinations(endpoints, 2):
        if first.port == second.port != 0 and not (first.host and second.host and _is_v6(first) != _is_v6(second)):
            raise ConfigError(
                f"listeners: {first.name} and {second.name} have the same port {first.port}; "
                "each listener must have a different port",
                "listeners",
            )


def _is_v6(endpoint: Endpoint) -> bool:
    return ":" in endpoint.host


def check_protocols(endpoints: tuple[Endpoint, ...], protocol_map: tuple[str, ...], setting: str = "listeners") -> None:
    """Check that every listener's security protocol is supported. Raises ConfigError for `setting`."""
    protocols = dict(_protocol(entry) for entry in protocol_map)
    for endpoint in endpoints:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            raise ConfigError(f"{setting}: {endpoint.name} has no entry in listener.security.protocol.map", setting)
        if protocol not in SUPPORTED_PROTOCOLS:
            raise ConfigError(
                f"{setting}: {endpoint.name} uses {protocol}; this version serves only "
                f"{', '.join(sorted(SUPPORTED_PROTOCOLS))} (set listener.security.protocol.map)",
                setting,
            )


def _protocol(entry: str) -> tuple[str, str]:
    name, colon, protocol = entry.rpartition(":")
    if not colon:
        raise ConfigError(
            f"listener.security.protocol.map: {entry!r} is not of the form NAME:PROTOCOL",
            "listener.security.protocol.map",
        )
    return name.strip().upper(), protocol.strip().upper()


def advertised(listeners: tuple[Endpoint, ...], wanted: tuple[Endpoint, ...] | None) -> tuple[Endpoint, ...]:
    """The address that clients get for each listener; as in Kafka, `wanted` may leave out listeners.

    Raises ConfigError for an address that no client can connect to.
    """
    chosen = {endpoint.name: endpoint for endpoint in (listeners if wanted is None else wanted)}
    for name in chosen:
        if name not in {endpoint.name for endpoint in listeners}:
            raise ConfigError(f"advertised.listeners names {name}, which listeners does not", "advertised.listeners")
    given = tuple(chosen[endpoint.name] for endpoint in listeners if endpoint.name in chosen)
    for endpoint in given:
        if endpoint.host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
            raise ConfigError(
                "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0: "
                "set advertised.listeners (--advertise HOST:PORT) to an address that clients reach",
                "advertised.listeners" if wanted else "listeners",
            )
    return given
