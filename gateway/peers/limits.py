"""The limits of one peer's connection."""

from odradek.wire.values import immutable


@immutable
class PeerLimits:
    """At most `max_in_flight` requests wait for responses at once; further calls wait for a slot.

    A response longer than `max_response_bytes` ends the connection. A dial may take `connect_timeout_ms`
    (`socket.connection.setup.timeout.ms`); the back-off is the pause before a dial that follows a failure.
    """

    max_in_flight: int = 64
    max_response_bytes: int = 100 * 1024 * 1024
    connect_timeout_ms: int = 10_000
    backoff_ms: int = 50
    backoff_max_ms: int = 1000
