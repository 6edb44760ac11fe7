"""Selects the client library of `produce` and `consume`."""

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import click

from odradek.gateway.cli.client import Target
from odradek.gateway.cli.clients.interface import Reader, ReadSettings, Sender, SendSettings
from odradek.gateway.cli.clients.translation import untranslatable

F = TypeVar("F", bound=Callable[..., Any])

AUTO = "auto"
KAFKA_PYTHON = "kafka-python"
CONFLUENT = "confluent-kafka"

client_option = click.option(
    "--client",
    type=click.Choice([AUTO, CONFLUENT, KAFKA_PYTHON]),
    default=AUTO,
    show_default=True,
    help="The client library. `auto` is confluent-kafka, which is fast, if it is installed "
    "(`pip install 'odradek[fast]'`) and has all -X settings, else kafka-python.",
)


def _is_fast(client: str, target: Target) -> bool:
    """True if confluent-kafka is to be used; wrong usage if it was requested and cannot be used."""
    if client == KAFKA_PYTHON:
        return False
    installed = importlib.util.find_spec("confluent_kafka") is not None
    unknown = untranslatable(target.properties)
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
