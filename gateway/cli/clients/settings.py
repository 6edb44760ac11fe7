"""Selects the client of `produce` and `consume`, and translates settings: `-X` takes kafka-python's names for both."""

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import click

from odradek.gateway.cli.client import Target
from odradek.gateway.cli.clients.interface import Reader, ReadSettings, Sender, SendSettings

F = TypeVar("F", bound=Callable[..., Any])

AUTO = "auto"
KAFKA_PYTHON = "kafka-python"
CONFLUENT = "confluent-kafka"

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

client_option = click.option(
    "--client",
    type=click.Choice([AUTO, CONFLUENT, KAFKA_PYTHON]),
    default=AUTO,
    show_default=True,
    help="The client library. `auto` is confluent-kafka, which is fast, if it is installed "
    "(`pip install 'odradek[fast]'`) and has all -X settings, else kafka-python.",
)


def translated(properties: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings under librdkafka's names; those without one are left out."""
    return {_NAMES[name]: value for name, value in properties.items() if name in _NAMES}


def _untranslatable(properties: Mapping[str, Any]) -> list[str]:
    return sorted(set(properties) - _NAMES.keys() - _OURS)


def _is_fast(client: str, target: Target) -> bool:
    """True if confluent-kafka is to be used; wrong usage if it was requested and cannot be used."""
    if client == KAFKA_PYTHON:
        return False
    installed = importlib.util.find_spec("confluent_kafka") is not None
    unknown = _untranslatable(target.properties)
    if client == CONFLUENT and not installed:
        raise click.BadParameter("confluent-kafka is not installed; pip install 'odradek[fast]'", param_hint="--client")
    if client == CONFLUENT and unknown:
        raise click.BadParameter(f"{CONFLUENT} has no setting {unknown[0]!r}", param_hint="-X")
    return installed and not unknown


def open_sender(client: str, target: Target, settings: SendSettings) -> AbstractContextManager[Sender]:
    """A sender over the client that `--client` names."""
    if _is_fast(client, target):
        from odradek.gateway.cli.clients import confluent

        return confluent.open_sender(target, settings)
    from odradek.gateway.cli.clients import kafka_python

    return kafka_python.open_sender(target, settings)


def open_reader(client: str, target: Target, settings: ReadSettings) -> AbstractContextManager[Reader]:
    """A reader over the client that `--client` names."""
    if _is_fast(client, target):
        from odradek.gateway.cli.clients import confluent

        return confluent.open_reader(target, settings)
    from odradek.gateway.cli.clients import kafka_python

    return kafka_python.open_reader(target, settings)
