"""Reassignments under way, for `odradek cluster describe`."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from odradek.gateway.cli.client import Admin, send
from odradek.gateway.cli.errors import CliError, broker_error_text
from odradek.gateway.cli.output import counted, table

SHOWN: Final = 20
LISTS: Final = ("replicas", "adding", "removing")


def under_way(admin: Admin) -> list[dict[str, Any]]:
    """The reassignments under way, sorted by topic and partition. Raises CliError.

    The request goes to any broker: kafka-python's own method sends it to the controller, and fails while that is down.
    """
    response = send(admin, importlib.import_module("kafka.protocol.admin").ListPartitionReassignmentsRequest())
    if response.error_code:
        raise CliError(broker_error_text(response.error_code, response.error_message))
    found = [
        {
            "topic": topic.name,
            "partition": part.partition_index,
            "replicas": list(part.replicas),
            "adding": list(part.adding_replicas),
            "removing": list(part.removing_replicas),
        }
        for topic in response.topics
        for part in topic.partitions
    ]
    return sorted(found, key=lambda each: (each["topic"], each["partition"]))


def show_under_way(moving: Sequence[Mapping[str, Any]]) -> None:
    """Print the first `SHOWN` reassignments in a table, and the number of the others; nothing if there are none."""
    if not moving:
        return
    click.echo(f"{counted(len(moving), 'reassignment')} under way")
    rows = [
        (each["topic"], each["partition"], *(",".join(map(str, each[name])) for name in LISTS))
        for each in moving[:SHOWN]
    ]
    table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows)
    if len(moving) > SHOWN:
        click.echo(f"and {len(moving) - SHOWN:,} more, which --json prints")
