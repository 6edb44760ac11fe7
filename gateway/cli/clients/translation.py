"""Translation of client settings: `-X` takes kafka-python's names, also for librdkafka."""

from collections.abc import Mapping
from typing import Any

_SAME = (
    "acks check_crcs client_id client_rack enable_idempotence fetch_max_bytes fetch_min_bytes group_instance_id "
    "heartbeat_interval_ms isolation_level linger_ms max_in_flight_requests_per_connection max_poll_interval_ms "
    "metadata_max_age_ms reconnect_backoff_max_ms reconnect_backoff_ms retries retry_backoff_ms sasl_mechanism "
    "security_protocol session_timeout_ms compression_type auto_offset_reset batch_size"
)
_RENAMED = {
    "delivery_timeout_ms": "message.timeout.ms",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "max_partition_fetch_bytes": "max.partition.fetch.bytes",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}
_NAMES = {name: name.replace("_", ".") for name in _SAME.split()} | _RENAMED
_OURS = frozenset({"auto_commit_interval_ms"})
"""Settings that the commands apply themselves."""


def translated(properties: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings under librdkafka's names; those without one are left out."""
    return {_NAMES[name]: value for name, value in properties.items() if name in _NAMES}


def untranslatable(properties: Mapping[str, Any]) -> list[str]:
    """The settings that librdkafka does not have, sorted."""
    return sorted(set(properties) - _NAMES.keys() - _OURS)
